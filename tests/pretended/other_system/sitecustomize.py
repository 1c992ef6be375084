"""Show modules of jupyter_dist another system than the one that is there: see systems.py beside."""

import builtins
import json
import os
import sys
import types

with open(os.environ["PRETENDED_SYSTEM"], encoding="utf-8") as _file:
    _LACKS = json.load(_file)
_NAMES = _LACKS["names"]
_FOLDERS = ("/proc", "/sys", "/dev/shm", "/dev/kmsg")
_OURS = "jupyter_dist"


class _View(types.ModuleType):
    """A module without the names that it lacks there."""

    def __init__(self, module, lacks=(), **other):
        super().__init__(module.__name__)
        super().__getattribute__("__dict__").update(_module=module, _lacks=set(lacks), _other=other)

    def __getattribute__(self, name):
        inside = super().__getattribute__("__dict__")
        if name in inside["_lacks"]:
            raise AttributeError(f"module {inside['_module'].__name__} has no attribute {name!r}")
        other = inside["_other"]
        return other[name] if name in other else getattr(inside["_module"], name)

    def __setattr__(self, name, value):
        setattr(super().__getattribute__("__dict__")["_module"], name, value)


_import = builtins.__import__
_views = {"sys": _View(sys, platform=_LACKS["platform"])}
if _LACKS["platform"] == "win32":
    _FLAGS = {"CREATE_NEW_PROCESS_GROUP": 0, "CREATE_NO_WINDOW": 0}  # others are refused here
    _views["subprocess"] = _View(_import("subprocess"), **_FLAGS)


def _import_there(name, globals=None, locals=None, fromlist=(), level=0):  # noqa: A002
    package = (globals or {}).get("__package__") or ""
    if level or package.partition(".")[0] != _OURS:
        return _import(name, globals, locals, fromlist, level)
    if _NAMES.get(name, ()) is None:
        raise ModuleNotFoundError(f"No module named {name!r} on this system", name=name)
    module = _import(name, globals, locals, fromlist, level)
    if module.__name__ in _NAMES and module.__name__ not in _views:
        _views[module.__name__] = _View(module, _NAMES[module.__name__])
    return _views.get(module.__name__, module)


def _is_ours():
    """Return whether the code that looks is ours: with what is of the standard library between."""
    frame = sys._getframe(2)
    while frame is not None:
        name = (frame.f_globals.get("__package__") or frame.f_globals["__name__"]).partition(".")[0]
        if name not in sys.stdlib_module_names and name not in ("sitecustomize", "__main__", ""):
            return name == _OURS
        frame = frame.f_back
    return False


def _is_lacking(path):
    return isinstance(path, (str, bytes, os.PathLike)) and os.fsdecode(path).startswith(_FOLDERS)


def _refuse(path):
    if _is_lacking(path) and _is_ours():
        raise FileNotFoundError(2, "there is no such folder on this system", os.fsdecode(path))


def _audit(event, arguments):
    if event in ("open", "os.listdir", "os.scandir"):
        _refuse(arguments[0])


def _guard(name):
    real = getattr(os, name)

    def guarded(path, *others, **options):
        _refuse(path)
        return real(path, *others, **options)

    setattr(os, name, guarded)
    for supported in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        if real in supported:
            supported.add(guarded)


builtins.__import__ = _import_there
sys.addaudithook(_audit)
for _name in ("stat", "lstat", "readlink", "statvfs", "access"):
    _guard(_name)
