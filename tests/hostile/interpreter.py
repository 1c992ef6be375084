"""Programs that damage the interpreter, its modules, or what the operating system has given."""

from .deeds import Deed, raised

BUILTINS = (
    *(
        Deed(
            f"builtins.{name} is {what}",
            f"import builtins; kept_builtin = builtins.{name}; builtins.{name} = {what}",
            undo=f"__import__('builtins').{name} = kept_builtin; del kept_builtin",
            repaired=f"builtins.{name}",
        )
        for name, what in (
            *((name, "None") for name in ("print", "open", "input", "id", "len")),
            *((name, "5") for name in ("getattr", "str", "Exception", "super", "range", "type")),
        )
    ),
    # What such a cell has done is no error of its own; the rank restores what it needs itself.
    Deed(
        "builtins.isinstance is 5",
        "import builtins; builtins.isinstance = 5",
        repaired="builtins.isinstance",
    ),
    Deed(
        "builtins.isinstance exits",
        "import builtins\ndef bad(*_): raise SystemExit(3)\nbuiltins.isinstance = bad",
        repaired="builtins.isinstance",
    ),
    Deed(
        "builtins.str and print are gone for a while",
        "import builtins, time; kept_builtins = str, print\nbuiltins.str = builtins.print = None; time.sleep(0.3)",
        undo="import builtins; builtins.str, builtins.print = kept_builtins; del kept_builtins",
        repaired="builtins.str",
    ),
    Deed(
        "builtins.Exception is deleted",
        "import builtins; kept_builtin = Exception; del builtins.Exception",
        undo="__import__('builtins').Exception = kept_builtin; del kept_builtin",
        repaired="builtins.Exception",
    ),
)

HOOKS = (
    Deed("excepthook is None", "import sys; sys.excepthook = None"),
    raised(
        "excepthook exits",
        "import sys\ndef bad(*_): raise SystemExit(3)\nsys.excepthook = bad\n1 / 0",
        "ZeroDivisionError",
    ),
    Deed(
        "unraisablehook exits",
        "import sys\ndef bad(*_): raise SystemExit(3)\nsys.unraisablehook = bad\nclass Odd:\n    def __del__(self): 1 / 0\nx = Odd(); del x; 5",
        value="5",
        undo="import sys; sys.unraisablehook = sys.__unraisablehook__",
    ),
    Deed(
        "threading.excepthook exits",
        "import threading\ndef bad(*_): raise SystemExit(3)\nold_hook = threading.excepthook; threading.excepthook = bad\nt = threading.Thread(target=lambda: 1 / 0); t.start(); t.join(); 5",
        value="5",
        undo="import threading; threading.excepthook = old_hook; del old_hook",
    ),
    Deed(
        "a trace function that raises",
        "import sys\ndef bad(*_): raise ValueError('traced')\ntry:\n    sys.settrace(bad); (lambda: 1)()\nexcept ValueError: pass\nfinally: sys.settrace(None)\n5",
        value="5",
    ),
    raised(
        "a trace function that exits",
        "import sys\ndef bad(*_): raise SystemExit(3)\nsys.settrace(bad); (lambda: 1)()",
        "SystemExit",
        undo="import sys; sys.settrace(None)",
    ),
    Deed(
        "a trace function that stays",
        "import sys; sys.settrace(lambda *a: None)",
        undo="import sys; sys.settrace(None)",
    ),
    Deed(
        "a profiler that stays",
        "import sys; sys.setprofile(lambda *a: None)",
        undo="import sys; sys.setprofile(None)",
    ),
    Deed(
        "an audit hook that counts",
        "import sys; sys.addaudithook(lambda *a, seen=[]: seen.append(1) if len(seen) < 9 else None)",
    ),
    Deed(
        "a gc callback that exits",
        "import gc\ndef bad(*_): raise SystemExit(3)\ngc.callbacks.append(bad)\n_ = gc.collect()",
        undo="import gc; gc.callbacks.remove(bad)",
    ),
    Deed("no garbage collection", "import gc; gc.disable()", undo="import gc; gc.enable()"),
    Deed("frozen garbage collection", "import gc; gc.freeze()"),
    Deed(
        "a finder that raises",
        "import sys\nclass Bad:\n    def find_spec(self, *a, **k): raise ValueError('found')\nsys.meta_path.insert(0, Bad())",
        undo="import sys; sys.meta_path.pop(0)",
    ),
    raised(
        "a module that ends the interpreter",
        "import sys, types, pathlib, tempfile\nfolder = tempfile.mkdtemp(); pathlib.Path(folder, 'ends_it.py').write_text('raise SystemExit(3)')\nsys.path.insert(0, folder)\ntry: import ends_it\nfinally:\n    import shutil; shutil.rmtree(folder); sys.path.remove(folder)",
        "SystemExit",
    ),
    Deed(
        "a shallow recursion limit",
        "import sys; kept_limit = sys.getrecursionlimit(); sys.setrecursionlimit(300)",
        undo="import sys; sys.setrecursionlimit(kept_limit)",
        repaired="recursion limit",
    ),
    Deed(
        "a fast switch interval",
        "import sys; sys.setswitchinterval(1e-6)",
        undo="import sys; sys.setswitchinterval(0.005)",
    ),
    Deed(
        "a slow switch interval",
        "import sys; sys.setswitchinterval(1.0)",
        undo="import sys; sys.setswitchinterval(0.005)",
    ),
    Deed("stdin is gone", "import sys; sys.stdin = None"),
    Deed(
        "dunder streams are gone",
        "import sys; kept_streams = sys.__stdout__, sys.__stderr__; sys.__stdout__ = sys.__stderr__ = None",
        undo="import sys; sys.__stdout__, sys.__stderr__ = kept_streams; del kept_streams",
    ),
)

MODULES = (
    Deed(
        "os is None in sys.modules",
        "import sys; kept_os = sys.modules['os']; sys.modules['os'] = None",
        undo="import sys; sys.modules['os'] = kept_os; del kept_os",
    ),
    Deed(
        "__main__ is gone",
        "import sys; kept_main = sys.modules.pop('__main__')",
        undo="import sys; sys.modules['__main__'] = kept_main; del kept_main",
    ),
    Deed(
        "sys.path is empty",
        "import sys; kept_path = sys.path[:]; sys.path[:] = []",
        undo="import sys; sys.path[:] = kept_path; del kept_path",
    ),
    Deed("sys.argv is empty", "import sys; sys.argv = []"),
    Deed(
        "no environment",
        "import os; kept_env = dict(os.environ); os.environ.clear()",
        undo="import os; os.environ.update(kept_env); del kept_env",
    ),
    Deed(
        "an environment of bytes",
        "import os; os.environb[b'ODD\\xff'] = b'\\xfe'",
        undo="import os; del os.environb[b'ODD\\xff']",
    ),
    Deed("linecache is empty", "import linecache; linecache.clearcache()"),
    Deed(
        "time.sleep raises",
        "import time\nkept_sleep = time.sleep\ndef bad(*_): raise SystemExit(3)\ntime.sleep = bad",
        undo="import time; time.sleep = kept_sleep; del kept_sleep",
    ),
    Deed(
        "time.monotonic stands still",
        "import time; kept_clock = time.monotonic; time.monotonic = lambda: 0.0",
        undo="import time; time.monotonic = kept_clock; del kept_clock",
    ),
    Deed(
        "time.time is text",
        "import time; kept_clock = time.time; time.time = lambda: 'noon'",
        undo="import time; time.time = kept_clock; del kept_clock",
    ),
    Deed(
        "pickle is replaced",
        "import pickle; kept_dumps = pickle.dumps; pickle.dumps = None",
        undo="import pickle; pickle.dumps = kept_dumps; del kept_dumps",
    ),
    Deed(
        "json is replaced",
        "import json; kept_dumps = json.dumps; json.dumps = None",
        undo="import json; json.dumps = kept_dumps; del kept_dumps",
    ),
    Deed(
        "socket is replaced",
        "import socket; kept_socket = socket.socket; socket.socket = None",
        undo="import socket; socket.socket = kept_socket; del kept_socket",
    ),
    Deed(
        "traceback is replaced",
        "import traceback; kept_format = traceback.format_exception; traceback.format_exception = None",
        undo="import traceback; traceback.format_exception = kept_format; del kept_format",
    ),
    Deed(
        "numpy prints nothing",
        "import numpy; numpy.set_printoptions(formatter={'all': lambda x: 1 / 0})",
        undo="import numpy; numpy.set_printoptions(formatter=None)",
    ),
    Deed(
        "threads cannot start",
        "import threading; kept_start = threading.Thread.start; threading.Thread.start = None",
        undo="import threading; threading.Thread.start = kept_start; del kept_start",
    ),
    Deed(
        "tempfile leads elsewhere",
        "import tempfile; tempfile.tempdir = '/nonexistent'",
        undo="import tempfile; tempfile.tempdir = None",
    ),
)

SYSTEM = (
    Deed(
        "a directory that is removed",
        "import os, tempfile; kept_dir = os.getcwd(); d = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d)",
        undo="import os; os.chdir(kept_dir)",
    ),
    Deed(
        "umask 777",
        "import os; kept_mask = os.umask(0o777)",
        undo="import os; _ = os.umask(kept_mask)",
    ),
    Deed(
        "SIGINT is ignored",
        "import signal; kept_handler = signal.signal(signal.SIGINT, signal.SIG_IGN)",
        undo="import signal; _ = signal.signal(signal.SIGINT, kept_handler)",
    ),
    Deed(
        "SIGCHLD is ignored",
        "import signal; _ = signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        undo="import signal; _ = signal.signal(signal.SIGCHLD, signal.SIG_DFL)",
    ),
    Deed(
        "SIGTERM is ignored",
        "import signal; kept_handler = signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        undo="import signal; _ = signal.signal(signal.SIGTERM, kept_handler)",
    ),
    Deed(
        "SIGUSR1 is ignored",
        "import signal; kept_handler = signal.signal(signal.SIGUSR1, signal.SIG_IGN)",
        undo="import signal; _ = signal.signal(signal.SIGUSR1, kept_handler or signal.SIG_DFL); import faulthandler",
    ),
    Deed(
        "all signals are blocked",
        "import signal; _ = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())",
        undo="import signal; _ = signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())",
    ),
    Deed(
        "faulthandler is off",
        "import faulthandler; faulthandler.disable()",
        undo="import faulthandler; faulthandler.enable()",
    ),
    raised(
        "few open files",
        "import resource\nkept_files = resource.getrlimit(resource.RLIMIT_NOFILE)\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, kept_files[1]))\nkept_open = []\ntry:\n    while True: kept_open.append(open('/dev/null'))\nfinally: kept_open.clear()",
        "Too many open files",
        undo="import resource; resource.setrlimit(resource.RLIMIT_NOFILE, kept_files)",
    ),
    raised(
        "little memory",
        "import resource\nkept_memory = resource.getrlimit(resource.RLIMIT_AS)\nused = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\nresource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), kept_memory[1]))\ntry: x = bytearray(1 << 30)\nfinally: resource.setrlimit(resource.RLIMIT_AS, kept_memory)",
        "MemoryError",
    ),
    Deed(
        "files of no size",
        "import resource, signal; kept_size = resource.getrlimit(resource.RLIMIT_FSIZE); print('before', flush=True); resource.setrlimit(resource.RLIMIT_FSIZE, (0, kept_size[1])); print('after')",
        undo="import resource; resource.setrlimit(resource.RLIMIT_FSIZE, kept_size)",
    ),
    Deed("a low priority", "import os; _ = os.nice(5)"),
    Deed(
        "no core dumps, but dumpable",
        "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)",
        undo="import ctypes; _ = ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)",
    ),
    Deed(
        "another session", "import os\ntry: os.setsid()\nexcept PermissionError: pass\n5", value="5"
    ),
    Deed("another name", "import ctypes; ctypes.CDLL(None).prctl(15, b'odd\\xff) R 1', 0, 0, 0)"),
    Deed(
        "no death with the parent",
        "import ctypes; ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)",
        undo="import ctypes, signal; _ = ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)",
    ),
)
