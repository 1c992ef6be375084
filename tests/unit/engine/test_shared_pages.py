import json
import subprocess
import sys

import pytest

from jupyter_dist.engine.shared_pages import (
    find_function,
    gather_code,
    make_names_first,
    read_run_by_ranks,
)

SOURCE = """
from contextlib import contextmanager
from functools import cached_property

def outer(start):
    def inner(more):
        return start + more
    return inner

@contextmanager
def opened():
    yield 5

class Box:
    side = 2
    @property
    def area(self): return self.side ** 2
    @cached_property
    def volume(self): return self.side ** 3
    @classmethod
    def make(cls, side=7):
        box = cls()
        box.side = side
        return box
    @staticmethod
    def name(): return "box"
    class Lid:
        def close(self): raise ValueError("stuck")
"""
NAMES = ("outer", "opened", "Box.area", "Box.volume", "Box.make", "Box.name", "Box.Lid.close")


@pytest.fixture
def boxes(tmp_path, monkeypatch):
    (tmp_path / "boxes.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    import boxes

    yield boxes
    del sys.modules["boxes"]


def test_functions_do_the_same_with_copies_of_their_code(boxes):
    before = {name: find_function("boxes", name).__code__ for name in NAMES}
    gather_code({"boxes": NAMES})
    for name, code in before.items():
        now = find_function("boxes", name).__code__
        assert (now == code, now is code) == (True, False)
    box = boxes.Box.make()
    assert (box.area, box.volume, box.name(), boxes.outer(1)(2)) == (49, 343, "box", 3)
    with boxes.opened() as number:
        assert number == 5
    with pytest.raises(ValueError, match="stuck") as raised:
        boxes.Box.Lid().close()
    assert raised.traceback[-1].path.name == "boxes.py"


def test_names_that_are_made_first_are_those_of_code_that_comes_later():
    names = tuple(f"never_{number}_used" for number in range(3))
    make_names_first(names)
    assert all(compile(name, "", "eval").co_names[0] is name for name in names)


def test_what_is_no_function_is_left_as_it_is(boxes):
    nowhere = ("side", "Box", "Box.side", "Box.gone", "gone.far", "Box.Lid.close.more", "")
    assert {find_function("boxes", name) for name in nowhere} == {None}
    gather_code({"boxes": nowhere, "not.imported": ("f",), "sys": ("exit",)})


def test_all_of_our_own_that_ranks_run_is_found():
    """Where another Python or IPython is, some of theirs may be missing."""
    code = """
import json
from jupyter_dist.engine.shared_pages import find_function, read_run_by_ranks
import jupyter_dist.engine.__main__, jupyter_dist.engine.shell.rank_shell
print(json.dumps([f"{module}:{name}" for module, names in read_run_by_ranks().functions.items()
    for name in names if module.startswith("jupyter_dist.") and not find_function(module, name)]))
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert json.loads(told.stdout) == []
    assert len(read_run_by_ranks().functions) > 50
