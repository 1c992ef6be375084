"""Objects that do what they want while they are packed, sent, unpacked or looked at."""


class Arrives:
    """Runs code in the process that unpickles it."""

    def __init__(self, code):
        self.code = code

    def __reduce__(self):
        return exec, (self.code, {})


class OnlyOn:
    """Runs code in one rank that unpickles it; in the others it is None."""

    def __init__(self, rank, code):
        self.rank, self.code = rank, code

    def __reduce__(self):
        code = f"import os\nif os.environ['RANK'] == '{self.rank}': exec({self.code!r}, {{}})"
        return exec, (code, {})


class Leaves:
    """Runs code in the process that pickles it."""

    def __init__(self, code):
        self.code = code

    def __reduce__(self):
        exec(self.code, {})
        return int, ()


SURVIVED = {
    "raises": ("raise ValueError('mine')", "mine"),
    "exits": ("raise SystemExit(3)", "SystemExit"),
    "calls exit": ("import sys; sys.exit('why')", "why"),
    "is interrupted": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "ends a generator": ("raise GeneratorExit", "GeneratorExit"),
    "raises a BaseException": ("class Base(BaseException): pass\nraise Base('base')", "Base"),
    "never ends to call itself": ("def f(): f()\nf()", "RecursionError"),
    "needs too much memory": ("bytearray(1 << 60)", "MemoryError"),
    "imports what is not there": ("import no_such_module_here", "no_such_module_here"),
    "raises what cannot be told": (
        "class Odd(Exception):\n    def __str__(self): raise SystemExit(5)\nraise Odd",
        "Odd",
    ),
    "raises what exits when looked at": (
        "class Odd(Exception):\n    def __getattribute__(self, name): raise SystemExit(5)\nraise Odd",
        "",
    ),
    "raises surrogates": ("raise ValueError('odd \\ud800')", "odd"),
    "raises 4 MB": ("raise ValueError('long' + 'x' * 4_000_000)", "long"),
    "has no syntax": ("x = = 1", "SyntaxError"),
    "raises a group": ("raise BaseExceptionGroup('all', [SystemExit(1), ValueError(2)])", "all"),
    "raises StopIteration": ("raise StopIteration(1)", "StopIteration"),
}
"""What an object does to the process, which lives on; and what must be told."""

FATAL = {
    "ends the process": ("import os; os._exit(9)", "9"),
    "kills the process": ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
    "reads where nothing is": ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
    "aborts": ("import os; os.abort()", "SIGABRT"),
}
"""What ends the process that unpickles it."""


UNPACKABLE = {
    "a lock": lambda: __import__("threading").Lock(),
    "a generator": lambda: (k for k in range(3)),
    "a frame": lambda: __import__("sys")._getframe(),
    "raises while packed": lambda: Leaves("raise ValueError('mine')"),
    "exits while packed": lambda: Leaves("raise SystemExit(3)"),
    "is interrupted while packed": lambda: Leaves("raise KeyboardInterrupt"),
    "recursion while packed": lambda: Leaves("def f(): f()\nf()"),
}
"""What cannot leave this process: a clear error here, and nothing has been sent."""

PULLED = {
    "a lock": "import threading; odd = threading.Lock()",
    "a generator": "odd = (k for k in range(3))",
    "raises while packed": "class Odd:\n    def __reduce__(self): raise ValueError('mine')\nodd = Odd()",
    "exits while packed": "class Odd:\n    def __reduce__(self): raise SystemExit(3)\nodd = Odd()",
    "is interrupted while packed": "class Odd:\n    def __reduce__(self): raise KeyboardInterrupt\nodd = Odd()",
    "recursion while packed": "class Odd:\n    def __reduce__(self): return self.__reduce__()\nodd = Odd()",
    "raises here": "class Odd:\n    def __reduce__(self): return exec, ('raise ValueError(\"mine\")',)\nodd = Odd()",
    "exits here": "class Odd:\n    def __reduce__(self): return exec, ('raise SystemExit(3)',)\nodd = Odd()",
    "is interrupted here": "class Odd:\n    def __reduce__(self): return exec, ('raise KeyboardInterrupt',)\nodd = Odd()",
    "recursion here": "class Odd:\n    def __reduce__(self): return exec, ('def f(): f()\\nf()', {})\nodd = Odd()",
    "attributes that exit": "class Odd:\n    def __getattribute__(self, name): raise SystemExit(3)\nodd = Odd()",
    "a buffer that is gone": "odd = memoryview(bytearray(9)); odd.release()",
}
"""What cannot come: TransferError naming the rank, and both processes live on."""
