"""Runs a program on a rank as `python x.py --lr 0.1` would: in a `__main__` of its own.

What it has defined is among the rank's names afterwards, as after IPython's `%run`.
"""

import linecache
import os
import runpy
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from jupyter_dist.engine.execution.namespace import Namespace
from jupyter_dist.protocol.commands import ProgramRequest

_MAIN = "__main__"


def run_program(names: Namespace, program: ProgramRequest, prepare: Callable[[str], object]) -> str:
    """Run it to its end, that of the threads it waits for included.

    `prepare` is called with its source, as with that of a cell, so that frameworks are formed.
    Return the call that has ended it with status 0, as `sys.exit(0) at train.py:7`, or nothing.
    Raise what it raises; SystemExit only where its status is not 0.
    """
    run = _run_module if program.is_module else _run_script
    before, exited = set(threading.enumerate()), ""
    with _arguments(program):
        prepare(_read_source(program))
        try:
            run(names, program)
        except SystemExit as end:
            if status := _read_status(end.code):
                raise SystemExit(status) from None
            exited = _name_exit(end)
        for thread in set(threading.enumerate()) - before:
            if not thread.daemon:
                thread.join()
    return exited


def _name_exit(end: SystemExit) -> str:
    """Name the innermost line that has led to it: it is asked for where others wait in vain."""
    step = end.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    if step is None:
        return "sys.exit(0)"
    return f"sys.exit(0) at {os.path.basename(step.tb_frame.f_code.co_filename)}:{step.tb_lineno}"


def _read_source(program: ProgramRequest) -> str:
    """Return the source; empty for a module that has none, or is not there."""
    if not program.is_module:
        return program.source
    try:
        spec = find_spec(program.path)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = find_spec(f"{program.path}.{_MAIN}")
    except (ImportError, ValueError):  # runpy says it better
        return ""
    get_source = getattr(getattr(spec, "loader", None), "get_source", None)
    return (get_source(spec.name) if spec is not None and get_source is not None else "") or ""


def _run_script(names: Namespace, program: ProgramRequest) -> None:
    code = compile(program.source, program.path, "exec", dont_inherit=True)
    # The host may have no such file, or another one; so tracebacks show what ran.
    lines = program.source.splitlines(keepends=True)
    linecache.cache[program.path] = (len(program.source), None, lines, program.path)
    main = ModuleType(_MAIN)
    vars(main).update(_first_names(names, program), __file__=program.path, __cached__=None)
    usual = sys.modules[_MAIN]
    sys.modules[_MAIN] = main
    names.of_program = vars(main)
    try:
        exec(code, vars(main))  # noqa: S102  (the user's own program)
    finally:
        sys.modules[_MAIN] = usual
        names.of_program = None
        _keep(names, vars(main))


def _run_module(names: Namespace, program: ProgramRequest) -> None:
    own = _first_names(names, program)
    _keep(names, runpy.run_module(program.path, own, run_name=_MAIN, alter_sys=True))


def _first_names(names: Namespace, program: ProgramRequest) -> dict[str, Any]:
    """Return what a program finds: what cells find, and what was restored for it."""
    there = names.shell.user_ns
    restored = {name: there[name] for name in program.restored if name in there}
    return {**names.shell.own_names, **restored}


def _keep(names: Namespace, made: Mapping[str, Any]) -> None:
    """Put what a program has made among the names of the rank."""
    own = names.shell.own_names
    kept = {n: v for n, v in made.items() if n not in own and not n.startswith("__")}
    names.shell.user_ns.update(kept)


@contextmanager
def _arguments(program: ProgramRequest) -> Iterator[None]:
    """Let the program find its arguments, and what lies beside it, where Python puts them."""
    beside = os.getcwd() if program.is_module else os.path.dirname(program.path)
    arguments, path = sys.argv, list(sys.path)
    sys.argv = [program.path, *program.arguments]
    sys.path.insert(0, beside)
    try:
        yield
    finally:
        sys.argv, sys.path[:] = arguments, path


def _read_status(code: object) -> int:
    """Return the exit status that Python makes of what `sys.exit` was given."""
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF
    sys.stderr.write(f"{code}\n")
    return 1
