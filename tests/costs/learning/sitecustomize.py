"""Notes what ranks run, for `tests/costs/run_by_ranks.py`: it is on the path of their zygote."""

import os
import sys
import threading
from pathlib import Path

_seen = set()
"""Code that was run in this rank."""


def _note(frame, event, _argument):
    if event == "call":
        _seen.add(frame.f_code)


def _begin():
    threading.setprofile(_note)
    sys.setprofile(_note)


def find_run():
    """Return functions that can be found by their names as `MODULE:NAME`, and names in all code."""
    sys.setprofile(None)
    run = frozenset(_seen)
    from jupyter_dist.engine.shared_pages import find_function

    seen = [code for code in run if not Path(code.co_filename).name.startswith("In_")]
    modules = {
        file: name for name, module in sys.modules.items() if (file := _file_of(module, name))
    }
    functions, names = [], set()
    for code in seen:
        module = modules.get(code.co_filename, "")
        function = find_function(module, code.co_qualname)
        if function is not None and function.__code__ is code:
            functions.append(f"{module}:{code.co_qualname}")
        names |= {code.co_qualname, *code.co_names}
        names |= {each for each in code.co_consts if isinstance(each, str) and each.isidentifier()}
    return sorted(functions), sorted(names)


def _file_of(module, name):
    if name == "__main__" or name.startswith(("importlib._", "_frozen_importlib")):
        return None
    return getattr(module, "__file__", None) or f"<frozen {name}>"


if any(each.endswith(".zygote") for each in sys.orig_argv):
    os.register_at_fork(after_in_child=_begin)
