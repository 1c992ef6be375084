"""Collect the tests of a module once, and run them in a forked child for each of its mutants."""

import gc
import os
import resource
import select
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from _pytest.main import pytest_runtestloop as run_tests
from mutations import Mutant, mutants_of

KILLED, SURVIVED = 1, 0
TIMES_AS_LONG, AND_MORE_S = 6, 4.0
"""A mutant may take so many times as long as no mutant, and so much more; then it hangs."""
MEMORY_BYTES = 12 << 30


class Mutants:
    """Takes the place of pytest's loop over the tests."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._hung = 0

    def pytest_configure(self) -> None:
        """Let hypothesis take the same examples each time; none need be made smaller."""
        from hypothesis import Phase, settings

        few = [Phase.explicit, Phase.generate]
        settings.register_profile(
            "mutants", derandomize=True, database=None, deadline=None, phases=few
        )
        settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests for each mutant, and print what came of it."""
        began_s = time.monotonic()
        if self._try(session, None, 600.0):
            print("The tests fail without any mutant.")
            session.testsfailed = 1
            return True
        limit_s = TIMES_AS_LONG * (time.monotonic() - began_s) + AND_MORE_S
        survivors, number = [], 0
        source = self._path.read_text(encoding="utf-8")
        for mutant in mutants_of(source, str(self._path)):
            number += 1
            if not self._try(session, mutant, limit_s):
                survivors.append(mutant)
        if self._try(session, None, limit_s):
            # Then they may have failed, or taken too long, for another reason than a mutant.
            print("The tests fail now without any mutant, too: no figure is to be trusted.")
            session.testsfailed = 1
            return True
        name = os.path.relpath(self._path)
        for mutant in survivors:
            print(f"{name}:{mutant.line}: {mutant.before}  ->  {mutant.after}")
        killed = number - len(survivors)
        score = f"{100 * killed / number:.1f} %" if number else "nothing to change"
        took_s = time.monotonic() - began_s
        print(
            f"{name}: {number} mutants, {killed} killed ({self._hung} took too long), "
            f"{len(survivors)} survived: {score} ({len(session.items)} tests, {took_s:.0f} s)"
        )
        return True

    def _try(self, session: pytest.Session, mutant: Mutant | None, limit_s: float) -> bool:
        """Return whether a test failed, or hung; the one that did is the first for the next."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            os._exit(_in_child(session, mutant, writing))
        os.close(writing)
        watched = os.pidfd_open(pid)
        try:
            ended, _, _ = select.select([watched], [], [], limit_s)
            # Also what the tests may have left behind.
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            status = os.waitpid(pid, 0)[1]
            failed = os.read(reading, 16)
        finally:
            os.close(watched)
            os.close(reading)
        self._hung += not ended
        if failed:
            item = session.items.pop(int(failed))
            session.items.insert(0, item)
        return not ended or status != 0


def _in_child(session: pytest.Session, mutant: Mutant | None, writing: int) -> int:
    try:
        if mutant is not None:
            _apply(mutant.code)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        session.config.option.maxfail = 1
        places = {item.nodeid: place for place, item in enumerate(session.items)}
        session.config.pluginmanager.register(_Witness(places, writing))
        run_tests(session)
    except BaseException:  # noqa: BLE001 (Failed, SystemExit: whatever ended the tests killed it)
        return KILLED
    return KILLED if session.testsfailed else SURVIVED


class _Witness:
    """Writes down which test failed first."""

    def __init__(self, places: dict[str, int], writing: int) -> None:
        self._places, self._writing = places, writing

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            os.write(self._writing, str(self._places[report.nodeid]).encode())


def _apply(module: CodeType) -> None:
    """Return each function of the module its code from the mutant."""
    new = {(code.co_qualname, code.co_firstlineno): code for code in _codes(module)}
    for function in gc.get_objects():
        if type(function) is FunctionType:
            old = function.__code__
            if old.co_filename == module.co_filename:
                code = new.get((old.co_qualname, old.co_firstlineno))
                if code is not None and code.co_freevars == old.co_freevars:
                    function.__code__ = code


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
