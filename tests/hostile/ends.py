"""Programs that end, or try to end: exits, signals, exceptions that are not what they seem."""

from .deeds import Deed, lost, raised

ODD_ERROR = "class Odd(Exception):\n    def {method}(self, *_): {body}\nraise Odd('why')"

EXITS = (
    raised("exit()", "exit()", "SystemExit"),
    raised("quit()", "quit()", "SystemExit"),
    raised("sys.exit(3)", "import sys; sys.exit(3)", "3"),
    raised("sys.exit('why')", "import sys; sys.exit('why')", "why"),
    raised("raise SystemExit(None)", "raise SystemExit(None)", "SystemExit"),
    raised("SystemExit of a tuple", "raise SystemExit((1, 2))", "SystemExit"),
    raised("SystemExit in a finally", "try: 1/0\nfinally: raise SystemExit(4)", "SystemExit"),
    lost("os._exit(7)", "import os; os._exit(7)", "7"),
    lost("os._exit(0)", "import os; os._exit(0)", "0"),
    lost("os.abort()", "import os; os.abort()", "SIGABRT"),
    lost("SIGKILL to itself", "import os; os.kill(os.getpid(), 9)", "SIGKILL"),
    lost("SIGSEGV to itself", "import os; os.kill(os.getpid(), 11)", "SIGSEGV"),
    lost("SIGBUS by ctypes", "import faulthandler; faulthandler._sigsegv()", "SIGSEGV"),
    lost("null pointer", "import ctypes; ctypes.string_at(0)", "SIGSEGV"),
    lost(
        "recursion without a limit",
        "import sys; sys.setrecursionlimit(2**31 - 1)\n"
        "class Deep:\n    def __getattr__(self, name): return getattr(self, name + 'x')\n"
        "class Pair:\n    def __eq__(self, other): return [self] == [other]\n"
        "Pair() == Pair()",
        "SIGSEGV",
        within_s=10,
    ),
    lost("execv of another program", "import os; os.execv('/bin/false', ['false'])", ""),
    Deed(
        "SIGINT to itself",
        "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(5)",
        "interrupted",
    ),
    raised(
        "an alarm without a handler of Python's",
        "import signal, time\n"
        "def late(*_): raise TimeoutError('late')\n"
        "_ = signal.signal(signal.SIGALRM, late); _ = signal.setitimer(signal.ITIMER_REAL, 0.02)\n"
        "time.sleep(5)",
        "TimeoutError",
    ),
    Deed(
        "a fork that exits on its own",
        "import os\npid = os.fork()\nif not pid: os._exit(5)\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])",
        value="5",
    ),
    Deed(
        "a fork whose child raises",
        "import os\npid = os.fork()\n"
        "if not pid:\n    try: raise ValueError('child')\n    finally: os._exit(6)\n"
        "os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])",
        value="6",
    ),
    Deed(
        "a fork whose child comes to the end of the cell",
        "import os\npid = os.fork()\npid and os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])",
        value="0",
    ),
    Deed(
        "a child that is killed",
        "import subprocess; subprocess.run(['sh', '-c', 'kill -9 $$']).returncode",
        value="-9",
    ),
    Deed(
        "a function for the exit", "import atexit; _ = atexit.register(lambda: 1 / 0); 5", value="5"
    ),
)

EXCEPTIONS = (
    Deed("KeyboardInterrupt of the user's", "raise KeyboardInterrupt('mine')", "interrupted"),
    raised("GeneratorExit", "raise GeneratorExit('odd')", "GeneratorExit"),
    raised("a BaseException", "class Base(BaseException): pass\nraise Base('b')", "Base"),
    raised(
        "__class__ exits",
        "class Odd(Exception):\n    @property\n    def __class__(self): raise SystemExit(3)\nraise Odd",
        "Odd",
    ),
    raised("a bare StopIteration", "raise StopIteration(5)", "StopIteration"),
    raised("StopAsyncIteration", "raise StopAsyncIteration", "StopAsyncIteration"),
    raised("CancelledError", "import asyncio; raise asyncio.CancelledError('c')", "CancelledError"),
    raised("raise of no exception", "raise 5", "TypeError"),
    raised("raise without one", "raise", "RuntimeError"),
    raised("__str__ raises", ODD_ERROR.format(method="__str__", body="1 / 0"), "Odd"),
    raised("__str__ exits", ODD_ERROR.format(method="__str__", body="raise SystemExit(3)"), "Odd"),
    raised(
        "__str__ is interrupted",
        ODD_ERROR.format(method="__str__", body="raise KeyboardInterrupt"),
        "Odd",
    ),
    raised("__str__ gives no text", ODD_ERROR.format(method="__str__", body="return 5"), "Odd"),
    raised("__str__ for ever", ODD_ERROR.format(method="__str__", body="return str(self)"), "Odd"),
    raised("__repr__ raises", ODD_ERROR.format(method="__repr__", body="1 / 0"), "Odd"),
    raised(
        "attributes raise",
        "class Odd(Exception):\n    def __getattribute__(self, name): raise SystemExit(2)\nraise Odd",
        "",
    ),
    raised("args that are no tuple", "e = ValueError('x'); e.args = [1]\nraise e", "ValueError"),
    raised("a message of 8 MB", "raise ValueError('x' * 8_000_000)", "ValueError", within_s=4),
    raised("a message of lone surrogates", "raise ValueError('\\ud800 \\udcff')", "ValueError"),
    raised(
        "a message of control characters", "raise ValueError('\\x00\\x1b[2J\\x07')", "ValueError"
    ),
    raised("notes that are no text", "e = ValueError('x'); e.__notes__ = [5, None]\nraise e", "x"),
    raised("notes that are no list", "e = ValueError('x'); e.__notes__ = 5\nraise e", "x"),
    raised(
        "a cause that is itself",
        "a, b = ValueError('a'), ValueError('b')\na.__cause__, b.__cause__ = b, a\nraise a",
        "a",
    ),
    raised(
        "a hundred causes",
        "e = None\n"
        "for k in range(100):\n"
        "    try:\n        raise ValueError(k) from e\n"
        "    except ValueError as caught: e = caught\n"
        "raise e",
        "99",
    ),
    raised(
        "groups in groups",
        "e = ValueError('inner')\nfor k in range(60): e = ExceptionGroup(f'g{k}', [e])\nraise e",
        "g59",
    ),
    raised(
        "a wide group",
        "raise ExceptionGroup('wide', [ValueError(k) for k in range(500)])",
        "wide",
    ),
    raised("recursion", "def f(): f()\nf()", "RecursionError"),
    raised("recursion of two", "def f(): g()\ndef g(): f()\nf()", "RecursionError"),
    raised("assertion with an object", "assert False, object()", "AssertionError"),
    raised("a SyntaxError without a place", "raise SyntaxError('mine')", "mine"),
    raised(
        "a SyntaxError of nonsense",
        "e = SyntaxError('x'); e.lineno, e.offset, e.text, e.filename = 'a', -5, 7, 3\nraise e",
        "SyntaxError",
    ),
    raised("UnicodeDecodeError", "b'\\xff'.decode()", "UnicodeDecodeError"),
    raised("MemoryError of its own", "bytearray(1 << 60)", "MemoryError"),
    raised(
        "a name with odd letters",
        "raise type('Fehler\\n<b>', (Exception,), {})('x')",
        "Fehler",
    ),
    raised(
        "a traceback that was taken away",
        "e = ValueError('bare')\nraise e.with_traceback(None)",
        "bare",
    ),
    raised(
        "code from nowhere",
        "exec(compile('1/0', '/nonexistent/x.py', 'exec'))",
        "ZeroDivisionError",
    ),
    raised(
        "code of a file that is binary",
        "exec(compile('1/0', '/bin/sh', 'exec'))",
        "ZeroDivisionError",
    ),
    raised(
        "an error in a generator's end",
        "def g():\n    try: yield\n    finally: 1 / 0\nx = g(); next(x); x.close()",
        "ZeroDivisionError",
    ),
    raised("an error of await", "async def f(): raise SystemExit(9)\nawait f()", "SystemExit"),
    raised(
        "an error of asyncio.run",
        "import asyncio\nasync def f(): raise KeyError('k')\nasyncio.run(f())",
        "",
    ),
)
