"""Objects whose own code does anything when they are packed, rebuilt, shown or compared."""

import pytest

from jupyter_dist.errors import TransferError

CLASSES = """
import os, sys, ctypes, threading
state = f"kept {rank}"
class Odd:
    def __init__(self, code): self.code = code
    def __reduce__(self): return (eval, (self.code,))
class OddToPack:
    def __init__(self, code): self.code = code
    def __reduce__(self): eval(self.code); return (int, ())
class Raises(BaseException):
    def __str__(self): raise SystemExit("in str")
    __repr__ = __str__
class OddToShow:
    def __repr__(self): raise SystemExit("in repr")
    __str__ = __eq__ = __reduce__ = __repr__
def raise_(error): raise error
"""
ENDS = [
    "__import__('sys').exit(3)",
    "(_ for _ in ()).throw(KeyboardInterrupt())",
    "(_ for _ in ()).throw(GeneratorExit())",
    "(f := lambda: f())()",
    "__import__('_no_such_module')",
]


class Odd:
    """Does something when it is rebuilt."""

    def __init__(self, code):
        self.code = code

    def __reduce__(self):
        return eval, (self.code,)


@pytest.fixture
def odd(four):
    """Four ranks that have classes for odd objects; their state must be the same in the end."""
    assert four.run(CLASSES).ok
    yield four
    states = [rank.value_repr for rank in four.run("state", timeout_s=20)]
    assert states == [f"'kept {rank}'" for rank in range(4)]


@pytest.mark.parametrize("code", ENDS)
def test_an_object_that_ends_the_interpreter_is_an_error_of_the_push(odd, code):
    with pytest.raises(TransferError, match=r"ranks 1-2: ('thing' arrived but|raised K)"):
        odd.push({"fine": 1, "thing": Odd(code)}, ranks=[1, 2])
    assert {rank.value_repr for rank in odd.run("'fine' in globals()")} == {"False"}


@pytest.mark.parametrize("code", ENDS)
def test_an_object_that_ends_the_interpreter_is_an_error_of_the_pull(odd, code):
    odd.run(f"if rank == 2: here, there = OddToPack({code!r}), Odd({code!r})")
    with pytest.raises(TransferError, match=r"rank 2: ('here' .* cannot be sent|raised K)"):
        odd.pull("here", ranks=[2])
    if "KeyboardInterrupt" not in code:  # may be a person's, so it is passed on
        with pytest.raises(TransferError, match="rank 2: 'there' arrived but"):
            odd.pull("there", ranks=[2])


@pytest.mark.parametrize("call", ["all_gather_object", "broadcast_object", "assert_equal"])
def test_an_object_that_ends_the_interpreter_is_an_error_of_the_collective(odd, call):
    packing = odd.run(f"comm.{call}(OddToPack('sys.exit(1)') if rank == 0 else 1)", timeout_s=30)
    assert packing[0].status == "raised"
    assert {rank.status for rank in packing} <= {"raised", "peer_failed"}
    rebuilding = odd.run(f"comm.{call}(Odd('sys.exit(1)'))", timeout_s=30)
    if call != "assert_equal":
        assert "TransferError" in {rank.error.ename for rank in rebuilding if rank.error}
    assert {rank.status for rank in rebuilding} <= {"ok", "raised", "peer_failed"}


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("raise Raises()", "raised"),
        ("OddToShow()", "raised"),
        ("odd = OddToShow(); comm.assert_equal(odd)", "raised"),
        ("comm.all_gather_object(OddToShow())", "raised"),
        ("import builtins; builtins.len = None; 1", None),
        ("import builtins; builtins.isinstance = lambda *_: sys.exit(1); 1", None),
        ("import builtins, time; builtins.str = builtins.print = None; time.sleep(0.3)", "ok"),
        ("import builtins; del builtins.Exception; 1", None),
        ("print = len = None", "ok"),
        ("sys.stdout = sys.stderr = None; print('to nowhere')", "ok"),
        ("sys.stdout = 5", "ok"),
        ("sys.excepthook = sys.unraisablehook = sys.exit; 1/0", "raised"),
        (
            "threading.excepthook = sys.exit; threading.Thread(target=raise_, args=(1,)).start()",
            "ok",
        ),
        ("class D:\n def __del__(self): sys.exit(1)\nd = D(); del d", "ok"),
        ("get_ipython().display_formatter.format = sys.exit; 1", "raised"),
        ("get_ipython().events.register('post_run_cell', lambda *_: sys.exit(1))", "raised"),
        ("get_ipython().set_custom_exc((ValueError,), lambda *_: sys.exit(1)); int('a')", "raised"),
        ("get_ipython().ast_transformers.append(sys.exit)\n", "ok"),
        ("sys.settrace(lambda *_: sys.exit(1)); (lambda: 1)()", "raised"),
        ("sys.setrecursionlimit(60); 1", None),
        (
            "class E(Exception):\n  @property\n  def __class__(self): sys.exit(1)\nraise E()",
            "raised",
        ),
    ],
)
def test_what_a_cell_does_to_python_costs_no_state(odd, code, status):
    result = odd.run(code, ranks=[1, 3], timeout_s=30)
    assert {rank.status for rank in result} <= ({status} if status else {"ok", "raised"})
    undo = (
        "import sys, threading; ip = get_ipython(); sys.excepthook = sys.__excepthook__\n"
        "ip.display_formatter.__dict__.pop('format', None); ip.ast_transformers.clear()\n"
        "ip.events.callbacks['post_run_cell'] = [c for c in ip.events.callbacks['post_run_cell']"
        " if c.__name__ != '<lambda>']\n"
        "for name in ('print', 'len'): globals().pop(name, None)\n"
        "threading.excepthook = threading.__excepthook__; ip.custom_exceptions = ()"
    )
    odd.run(undo, ranks=[1, 3], timeout_s=30)
    assert {rank.value_repr for rank in odd.run("len(str(print))", timeout_s=30)} != {None}


def test_a_rank_that_an_object_kills_is_named_and_the_others_have_it(start):
    cluster = start("localhost:3")
    fatal = "'here' if __import__('os').environ['RANK'] != '1' else __import__('os')._exit(7)"
    with pytest.raises(TransferError, match=r"rank 1: .*exited with code 7 .*push of thing"):
        cluster.push({"thing": Odd(fatal)})
    result = cluster.run("thing", ranks=[0, 2])
    assert [rank.value_repr for rank in result] == ["'here'", "'here'"]
