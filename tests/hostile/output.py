"""Values that cannot be shown, and streams that are not what they should be."""

from .deeds import Deed, raised

VALUE = "class Odd:\n    def {method}(self, *a, **k): {body}\nOdd()"

VALUES = (
    Deed("a value whose __repr__ raises", VALUE.format(method="__repr__", body="1 / 0")),
    raised(
        "a value: __repr__ exits",
        VALUE.format(method="__repr__", body="raise SystemExit(3)"),
        "SystemExit",
    ),
    Deed(
        "a value whose __repr__ is interrupted",
        VALUE.format(method="__repr__", body="raise KeyboardInterrupt"),
        "interrupted",
    ),
    Deed("__repr__ for ever", VALUE.format(method="__repr__", body="return repr(self)")),
    Deed("__repr__ is no text", VALUE.format(method="__repr__", body="return 5")),
    Deed("__repr__ of surrogates", VALUE.format(method="__repr__", body="return '\\udc80'")),
    Deed(
        "__repr__ of 8 MB",
        VALUE.format(method="__repr__", body="return 'x' * 8_000_000"),
        within_s=4,
    ),
    Deed(
        "__repr__ prints",
        VALUE.format(method="__repr__", body="print('aside'); return 'odd'"),
        value="odd",
        says="aside",
    ),
    Deed("_repr_html_ raises", VALUE.format(method="_repr_html_", body="1 / 0")),
    raised(
        "a value: _repr_html_ exits",
        VALUE.format(method="_repr_html_", body="raise SystemExit(3)"),
        "SystemExit",
    ),
    Deed("_repr_html_ is a number", VALUE.format(method="_repr_html_", body="return 5")),
    Deed("_repr_png_ is text", VALUE.format(method="_repr_png_", body="return 'no picture'")),
    Deed("_repr_json_ has odd keys", VALUE.format(method="_repr_json_", body="return {1: {2: 3}}")),
    Deed(
        "_repr_mimebundle_ has odd keys",
        VALUE.format(method="_repr_mimebundle_", body="return {1: 'a'}"),
    ),
    Deed(
        "_repr_mimebundle_ is a list",
        VALUE.format(method="_repr_mimebundle_", body="return [1, 2]"),
    ),
    raised(
        "a value: _repr_mimebundle_ exits",
        VALUE.format(method="_repr_mimebundle_", body="raise SystemExit(1)"),
        "SystemExit",
    ),
    Deed("_ipython_display_ raises", VALUE.format(method="_ipython_display_", body="1 / 0")),
    raised(
        "a value: _ipython_display_ exits",
        VALUE.format(method="_ipython_display_", body="raise SystemExit(1)"),
        "SystemExit",
    ),
    Deed(
        "a class that answers to everything",
        "class Odd:\n    def __getattr__(self, name): return self\n    def __call__(self, *a, **k): return self\nOdd()",
    ),
    raised(
        "a class that answers to nothing",
        "class Odd:\n    def __getattribute__(self, name): raise SystemExit(3)\nOdd()",
        "SystemExit",
    ),
    Deed("a mock", "from unittest.mock import MagicMock\nMagicMock(name='m')"),
    Deed("a list that holds itself", "x = []; x.append(x); x", value="[[...]]"),
    Deed("lists 5,000 deep", "x = []\nfor _ in range(5000): x = [x]\nx"),
    Deed(
        "a text that lies about its length",
        "class Text(str):\n    def __len__(self): return -1\nText('t')",
    ),
    Deed("a number too large to print", "10 ** 6000"),
    Deed("a text with NUL", "'a\\0b'", value="'a\\x00b'"),
    Deed(
        "a value that is its own end",
        "class Odd:\n    def __del__(self): raise SystemExit(3)\nOdd(); 5",
        value="5",
    ),
)

STREAMS = (
    Deed("a stream that is a number", "import sys; sys.stdout = 5"),
    Deed("surrogates", "print('a\\ud800b')", says="a"),
    Deed(
        "bytes that are no text",
        "import sys; _ = sys.stdout.buffer.write(b'\\xff\\xfe ok\\n'); sys.stdout.flush()",
        says="ok",
    ),
    Deed("control characters", "print('\\x00\\x07\\x1b[31mred\\x1b[0m\\x9b')", says="red"),
    Deed("carriage returns", "print('one\\rtwo\\r\\nthree')", says="three"),
    Deed("no end of line", "print('no end', end='')", says="no end"),
    Deed("a line of 4 MB", "print('x' * 4_000_000)", says="xxx", within_s=4),
    Deed("20,000 lines", "for k in range(20_000): print(k)", says="19999", within_s=6),
    Deed(
        "empty writes",
        "import sys\nfor _ in range(1000): sys.stdout.write('')\nprint('end')",
        says="end",
    ),
    raised("a write of bytes", "import sys; sys.stdout.write(b'x')", "TypeError"),
    Deed(
        "stdout is None",
        "import sys; kept_out = sys.stdout; sys.stdout = None; print('x')",
        undo="import sys; sys.stdout = kept_out; del kept_out",
    ),
    raised(
        "stdout is an object",
        "import sys; kept_out = sys.stdout; sys.stdout = object(); 5",
        "AttributeError",
        undo="import sys; sys.stdout = kept_out; del kept_out",
    ),
    Deed(
        "stdout is in memory",
        "import io, sys; kept_out = sys.stdout; sys.stdout = io.StringIO(); print('x'); 5",
        value="5",
        undo="import sys; sys.stdout = kept_out; del kept_out",
    ),
    Deed(
        "stderr raises",
        "import sys\nkept_err = sys.stderr\nclass Bad:\n    def write(self, text): raise SystemExit(3)\n    def flush(self): 1 / 0\nsys.stderr = Bad(); 5",
        value="5",
        undo="import sys; sys.stderr = kept_err; del kept_err",
    ),
    Deed("stdout is closed", "import sys; sys.stdout.close()"),
    Deed(
        "descriptor 1 is closed",
        "import os; kept_fd = os.dup(1); os.close(1); print('into nothing')",
        undo="import os; os.dup2(kept_fd, 1); os.close(kept_fd); del kept_fd",
    ),
    Deed(
        "descriptor 1 leads elsewhere",
        "import os; kept_fd = os.dup(1); null = os.open('/dev/null', 1); os.dup2(null, 1); os.close(null); print('into nothing')",
        undo="import os; os.dup2(kept_fd, 1); os.close(kept_fd); del kept_fd",
    ),
    Deed(
        "a child prints",
        "import subprocess; subprocess.run(['echo', 'from a child']).returncode",
        value="0",
        says="from a child",
    ),
    Deed(
        "C prints",
        "import ctypes; c = ctypes.CDLL(None); c.puts(b'from C'); c.fflush(None)",
        says="from C",
    ),
    Deed(
        "a fork prints",
        "import os\npid = os.fork()\nif not pid:\n    os.write(1, b'from a fork\\n'); os._exit(0)\nos.waitpid(pid, 0)[1]",
        value="0",
        says="from a fork",
    ),
    Deed(
        "a thread prints later",
        "import threading\nt = threading.Timer(0.05, print, ('later',)); t.start()",
    ),
    Deed(
        "__del__ prints",
        "class Odd:\n    def __del__(self): print('gone')\nx = Odd(); del x",
        says="gone",
    ),
    Deed(
        "__del__ exits",
        "class Odd:\n    def __del__(self): raise SystemExit(3)\nx = Odd(); del x; 5",
        value="5",
    ),
    Deed(
        "a log formatter raises",
        "import logging\nclass Bad(logging.Formatter):\n    def format(self, record): 1 / 0\nh = logging.StreamHandler(); h.setFormatter(Bad()); logging.getLogger('odd').addHandler(h)\nlogging.getLogger('odd').warning('x'); 5",
        value="5",
    ),
    raised(
        "warnings are errors",
        "import warnings\nwith warnings.catch_warnings():\n    warnings.simplefilter('error'); warnings.warn('loud')",
        "loud",
    ),
    raised(
        "showwarning raises",
        "import warnings\nwith warnings.catch_warnings():\n    warnings.simplefilter('always')\n    def bad(*_): raise ValueError('shown')\n    warnings.showwarning = bad\n    warnings.warn('x')",
        "shown",
    ),
    raised(
        "a display hook that exits",
        "import sys\nkept_hook = sys.displayhook\ndef bad(value): raise SystemExit(3)\nsys.displayhook = bad\nNone",
        "SystemExit",
        undo="import sys; sys.displayhook = kept_hook; del kept_hook",
    ),
    raised("input()", "input('?')", "%dist_push"),
    raised(
        "getpass",
        "import getpass, warnings\nwarnings.simplefilter('ignore')\ngetpass.getpass('?')",
        "%dist_push",
    ),
)
