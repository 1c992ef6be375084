"""Programs that turn IPython, the namespace or the cell itself against the rank."""

from .deeds import Deed, raised, refused, stopped

EVENTS = "def bad(*_): {body}\nget_ipython().events.register({event!r}, bad)"
UNREGISTER = "get_ipython().events.unregister({event!r}, bad)"

SHELL = (
    raised("an unknown magic", "%no_such_magic", ""),
    raised("an unknown cell magic", "%%no_such_magic\n1", ""),
    raised("a shell that fails", "%%bash\nexit 3", "CalledProcessError"),
    Deed("a command that fails", "!exit 3"),
    Deed("a command that is not there", "!no-such-command-here", within_s=4),
    Deed("%reset -f", "%reset -f", keeps_state=False),
    Deed(
        "a cell in a cell", "x = get_ipython().run_cell('print(\"inner\")').success", says="inner"
    ),
    Deed("a cell in a cell that raises", "x = get_ipython().run_cell('1/0').success"),
    raised("ask_exit", "get_ipython().ask_exit()", "SystemExit"),
    Deed(
        "get_ipython is gone",
        "kept_get = get_ipython; del get_ipython",
        undo="get_ipython = kept_get; del kept_get",
    ),
    *(
        Deed(
            f"{event} raises",
            EVENTS.format(event=event, body="1 / 0"),
            undo=UNREGISTER.format(event=event),
        )
        for event in ("pre_run_cell", "post_run_cell", "pre_execute", "post_execute")
    ),
    *(
        Deed(
            f"{event} exits",
            EVENTS.format(event=event, body="raise SystemExit(3)"),
            status,
            is_beyond_repair=True,
        )
        for event, status in (("pre_run_cell", "ok"), ("post_run_cell", "raised"))
    ),
    Deed(
        "a transformer of lines that raises",
        "def bad(lines): raise ValueError('lines')\nget_ipython().input_transformers_post.append(bad)",
        is_beyond_repair=True,
    ),
    Deed(
        "a transformer of trees that raises",
        "import ast\nclass Bad(ast.NodeTransformer):\n    def visit(self, node): raise ValueError('tree')\nget_ipython().ast_transformers.append(Bad())",
    ),
    raised(
        "a custom handler that raises",
        "def bad(*_, **k): raise SystemExit(3)\nget_ipython().set_custom_exc((ValueError,), bad)\nraise ValueError('mine')",
        "",
        undo="get_ipython().set_custom_exc((), None)",
    ),
    raised(
        "%pdb on",
        "get_ipython().call_pdb = True\n1 / 0",
        "ZeroDivisionError",
        undo="get_ipython().call_pdb = False",
    ),
    Deed("breakpoint()", "breakpoint()", says="-> breakpoint()"),
    raised(
        "a formatter that exits",
        "f = get_ipython().display_formatter.formatters['text/html']\ndef bad(o): raise SystemExit(3)\n_ = f.for_type(int, bad)\n5",
        "SystemExit",
        undo="_ = get_ipython().display_formatter.formatters['text/html'].pop(int)",
    ),
    Deed(
        "no active types",
        "kept_types = get_ipython().display_formatter.active_types; get_ipython().display_formatter.active_types = []",
        undo="get_ipython().display_formatter.active_types = kept_types",
    ),
    Deed(
        "a history that fails",
        "class Bad:\n    def __getattr__(self, name): raise SystemExit(3)\nkept_history = get_ipython().history_manager.store_inputs\ndef bad(*_): raise ValueError('history')\nget_ipython().history_manager.store_inputs = bad",
        undo="get_ipython().history_manager.store_inputs = kept_history",
    ),
    Deed(
        "colours of nonsense",
        "try: get_ipython().colors = 'odd'\nexcept Exception: pass\n5",
        value="5",
    ),
    Deed("%autocall 2", "%autocall 2", undo="%autocall 0"),
    Deed("%xmode Verbose", "%xmode Verbose", undo="%xmode Context"),
    Deed("%precision", "%precision 1", undo="%precision"),
)

TEXTS = (
    Deed("nothing", ""),
    Deed("a blank", "  \n\n\t\n"),
    Deed("a comment", "# nothing"),
    refused("a syntax error", "x = = 1", "SyntaxError"),
    refused("an open bracket", "print((1", "SyntaxError"),
    refused("an open text", "x = '''abc", "SyntaxError"),
    refused("a bad indent", "if 1:\n  x = 1\n x = 2", "IndentationError"),
    refused("tabs and blanks", "if 1:\n\tx = 1\n        y = 2\n  z = 3", ""),
    refused("return outside of a function", "return 5", "SyntaxError"),
    refused("yield outside of a function", "yield 5", "SyntaxError"),
    refused("NUL in the cell", "x = 1\0", ""),
    refused("lone surrogates in the cell", "x = '\ud800'", ""),
    Deed("carriage returns in the cell", "x = 1\r\ny = 2\r\nx + y", value="3"),
    Deed("a form feed in the cell", "x = 1\f\nx", value="1"),
    Deed("names of other alphabets", "größe = 3; Ж = 4; größe + Ж", value="7"),
    Deed("a cookie of another encoding", "# -*- coding: latin-1 -*-\n'ä'", value="'ä'"),
    Deed("a text of 2 MB", "len('" + "x" * 2_000_000 + "')", value="2000000", within_s=4),
    Deed(
        "3,000 lines", "\n".join(f"v = {k}" for k in range(3000)) + "\nv", value="2999", within_s=4
    ),
    refused("500 open brackets", "(" * 500 + ")" * 500, ""),
    refused("a sum of 50,000", "+".join(["1"] * 50_000), "", within_s=6),
    Deed("walrus and match", "match (y := [1, 2]):\n    case [a, b]: pass\na + b", value="3"),
    Deed(
        "await and async for",
        "import asyncio\nasync def g():\n    for k in range(3):\n        await asyncio.sleep(0); yield k\n[k async for k in g()]",
        value="[0, 1, 2]",
    ),
)

NAMES = (
    Deed("rank = 5", "rank = 5\nrank", value="5"),
    Deed("comm = None", "comm = None"),
    Deed("del comm", "del comm"),
    Deed("world_size is text", "world_size = 'many'"),
    Deed("for rank in …", "for rank in range(9): pass"),
    Deed("import of the name rank", "import math as rank"),
    Deed("def comm()", "def comm(): return 5"),
    Deed("__name__ is odd", "__name__ = 'odd'", undo="__name__ = '__main__'"),
    Deed(
        "__builtins__ is a dictionary",
        "kept_b = __builtins__; __builtins__ = dict(vars(kept_b))",
        undo="__builtins__ = kept_b",
    ),
    Deed(
        "In and Out are numbers",
        "kept_in, kept_out_ = In, Out; In = Out = 5",
        undo="In, Out = kept_in, kept_out_",
    ),
    Deed("_ is kept", "_ = 5; 6", value="6", undo="del _"),
    Deed(
        "keys that are no text",
        "globals()[5] = 'five'; globals()[None] = 1",
        undo="del globals()[5], globals()[None]",
    ),
    Deed("a name of surrogates", "globals()['\\ud800'] = 1", undo="del globals()['\\ud800']"),
    Deed(
        "50,000 names",
        "globals().update((f'n{k}', k) for k in range(50_000))",
        undo="[globals().pop(f'n{k}') for k in range(50_000)] and None",
        within_s=4,
    ),
)

THREADS = (
    Deed(
        "a thread that raises",
        "import threading\nt = threading.Thread(target=lambda: 1 / 0); t.start(); t.join(); 5",
        value="5",
    ),
    Deed(
        "a thread that exits",
        "import threading, sys\nt = threading.Thread(target=sys.exit); t.start(); t.join(); 5",
        value="5",
    ),
    Deed(
        "a thread that computes for ever",
        "import threading\nbusy = True\ndef spin():\n    while busy: pass\nthreading.Thread(target=spin, daemon=True).start()",
        undo="busy = False",
    ),
    Deed(
        "a thread that is no daemon",
        "import threading\nwait = threading.Event()\nthreading.Thread(target=wait.wait).start()",
        undo="wait.set()",
    ),
    Deed(
        "a pool that is left open",
        "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(4); pool.submit(int).result()",
        value="0",
        undo="pool.shutdown(); del pool",
    ),
    Deed(
        "processes in a pool",
        "import multiprocessing as mp\nwith mp.get_context('fork').Pool(2) as pool: x = pool.map(abs, [-1, -2])\nx",
        value="[1, 2]",
        within_s=6,
    ),
    Deed(
        "a pool whose child dies",
        "import multiprocessing as mp, os\np = mp.get_context('fork').Process(target=os._exit, args=(9,)); p.start(); p.join(); p.exitcode",
        value="9",
        within_s=4,
    ),
    Deed(
        "a loop that is stopped",
        "import asyncio\nloop = asyncio.new_event_loop(); loop.call_soon(loop.stop); loop.run_forever(); loop.close(); 5",
        value="5",
    ),
    Deed(
        "a task that is forgotten",
        "import asyncio\nasync def f(): await asyncio.sleep(0)\n_ = asyncio.ensure_future(f())\nawait asyncio.sleep(0)\n5",
        value="5",
    ),
    Deed(
        "a coroutine that is forgotten",
        "import warnings\nasync def f(): pass\nwith warnings.catch_warnings():\n    warnings.simplefilter('ignore'); x = f(); del x\n5",
        value="5",
    ),
    stopped(
        "a lock taken twice",
        "import threading\nlock = threading.Lock(); lock.acquire(); print('here'); lock.acquire()",
    ),
    stopped("a loop for ever", "print('here')\nwhile True: pass"),
    stopped("a sleep for ever", "import time; print('here'); time.sleep(1000)"),
    raised(
        "an answer to ■ that raises",
        "try:\n    print('here')\n    while True: pass\nexcept KeyboardInterrupt: raise ValueError('instead')",
        "instead",
        is_endless=True,
    ),
    Deed(
        "an answer to ■ that goes on",
        "try:\n    print('here')\n    while True: pass\nexcept KeyboardInterrupt: x = 'went on'\nx",
        value="'went on'",
        is_endless=True,
    ),
    stopped("await for ever", "import asyncio; print('here'); await asyncio.Event().wait()"),
    stopped(
        "a child for ever",
        "import subprocess; print('here', flush=True); subprocess.run(['sleep', '1000'])",
    ),
    raised(
        "a wait for a rank that is not in the cell",
        "import numpy as np; comm.recv(np.zeros(3), 0)",
        "CommunicatorError",
    ),
)
