"""Objects go to ranks and come back, or the reason why not is told."""

import errno
import os
import signal
import subprocess
import threading

import numpy as np
import pytest

from jupyter_dist.cluster import transfer as moving
from jupyter_dist.control.memory_file import MemoryFile
from jupyter_dist.errors import TransferError, UnknownRanks

from .leftovers import memory_files, pids_of, placed_files


def test_a_pushed_array_arrives_and_can_be_written(four):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    four.push({"given": array})
    result = four.run(
        "given[0, 0] += 10 + rank\n(given.dtype.name, given.shape, float(given.sum()))"
    )
    assert [rank.value_repr for rank in result] == [
        f"('float32', (3, 4), {66.0 + 10 + k})" for k in range(4)
    ]
    assert array[0, 0] == 0


def test_a_pulled_array_can_be_written(four):
    four.run("import numpy as np\nmade = np.full((2, 3), rank)")
    pulled = four.pull("made")
    assert list(pulled) == [0, 1, 2, 3]
    for rank, array in pulled.items():
        assert array.shape == (2, 3)
        assert (array == rank).all()
        array[:] = 9
    assert [rank.value_repr for rank in four.run("int(made.sum())")] == ["0", "6", "12", "18"]


def test_a_large_array_goes_both_ways(four, within):
    array = np.arange(64 << 20 >> 3, dtype=np.float64)
    with within(8):
        four.push({"large": array})
    assert {r.value_repr for r in four.run("(large.nbytes, float(large[-1]))")} == {
        f"({64 << 20}, {array[-1]})"
    }
    four.run("large[0] = rank + 1")
    with within(8):
        back = four.pull("large", ranks="1,3")
    assert [back[1][0], back[3][0]] == [2.0, 4.0]
    assert np.array_equal(back[3][1:], array[1:])
    four.run("del large")


@pytest.fixture
def all_is_told(monkeypatch):
    """Tell of progress at once and of each piece, as if the machine was slow."""
    monkeypatch.setattr(moving, "TELL_AFTER_S", 0.0)
    monkeypatch.setattr(moving, "TELL_INTERVAL_S", 0.0)


@pytest.mark.usefixtures("all_is_told")
def test_how_much_of_a_large_array_has_arrived_is_told(four):
    told = []
    array = np.arange(32 << 20, dtype=np.uint8)
    four.push({"large": array}, on_moved=told.append)
    up = [moved for moved in told if moved.where == moving.COPIED]
    assert [moved.moved_bytes for moved in up] == sorted({moved.moved_bytes for moved in up})
    assert up[-1].moved_bytes == up[-1].total_bytes > array.nbytes
    told.clear()
    four.pull("large", ranks=[1, 2], on_moved=told.append)
    assert [moved.moved_bytes for moved in told] == sorted(moved.moved_bytes for moved in told)
    four.run("del large")


def test_what_ranks_and_the_notebook_share_none_of_them_can_change_for_another(four):
    array = np.zeros(1 << 20)
    four.push({"shared": array})
    array[:] = 5
    four.run("before = shared[:3].tolist(); shared[:] = rank")
    assert {rank.value_repr for rank in four.run("before")} == {"[0.0, 0.0, 0.0]"}
    pulled = four.pull("shared")
    four.run("shared[:] = 9")
    assert [(array[0], array[-1]) for array in pulled.values()] == [(k, k) for k in range(4)]
    pulled[0][:] = 7
    assert [rank.value_repr for rank in four.run("float(shared[0])")] == ["9.0"] * 4
    assert pulled[1][0] == 1
    four.run("del shared")


def test_nothing_is_held_open_for_what_was_pushed_or_pulled(four):
    array = np.zeros(1 << 20)
    four.push({"held": array})
    pulled = four.pull("held")
    holders = [os.getpid(), *pids_of(four).values()]
    assert [memory_files(pid) for pid in holders] == [[]] * 5
    assert placed_files(four) == []
    assert len(pulled) == 4
    four.run("del held")


def test_a_notebook_without_such_files_sends_and_gets_the_same_in_pieces(four, monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    array = np.arange(20 << 20 >> 3, dtype=np.float64)
    told = []
    four.push({"sent": array, "too": b"x" * 1000}, on_moved=told.append)
    four.run("sent[0] = rank + 1")
    back = four.pull("sent", ranks="1,3")
    assert [back[1][0], back[3][0]] == [2.0, 4.0]
    assert np.array_equal(back[3][1:], array[1:])
    back[3][:] = 0
    four.run("del sent, too")


@pytest.mark.usefixtures("all_is_told")
def test_ctrl_c_in_the_middle_of_a_large_push_takes_it_back(four):
    four.push({"large": "before"})

    def press_ctrl_c(_moved):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="is cancelled"):
        four.push({"large": np.zeros(64 << 20, np.uint8)}, on_moved=press_ctrl_c)
    assert [rank.value_repr for rank in four.run("large")] == ["'before'"] * 4
    four.push({"large": np.ones(20 << 20, np.uint8)})
    assert {rank.value_repr for rank in four.run("int(large.sum())")} == {str(20 << 20)}
    four.run("del large")


def test_where_a_file_cannot_be_written_pieces_are_sent(four, monkeypatch):
    four.run(
        "import resource\n"
        "limits = resource.getrlimit(resource.RLIMIT_FSIZE)\n"
        "if rank == 1: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))"
    )
    given = np.arange(8 << 20, dtype=np.uint8)
    try:
        with monkeypatch.context() as full:
            full.setattr(MemoryFile, "write_at", no_room)
            four.push({"given": given})
        four.run("given += rank")
        back = four.pull("given")
        assert all((back[rank] == given + np.uint8(rank)).all() for rank in range(4))
    finally:
        four.run("resource.setrlimit(resource.RLIMIT_FSIZE, limits); del given")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_another_user_cannot_open_what_is_pushed():
    with MemoryFile.make() as file:
        pid, descriptor, _ = file.name.split("/")
        look = ["cat", f"/proc/{pid}/fd/{descriptor}"]
        assert subprocess.run(look, check=False).returncode == 0
        nobody = subprocess.run(look, check=False, user=65534, group=65534, capture_output=True)
    assert b"Permission denied" in nobody.stderr


def no_room(_file, _offset, _piece):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    "array",
    [
        np.float64(2.5),
        np.zeros((0, 3)),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(20)[::3],
        np.array(["a", "bc"]),
        np.array([{"k": 1}, None], dtype=object),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
    ],
    ids=lambda array: str(array.dtype),
)
def test_every_kind_of_array_survives_the_round_trip(four, array):
    four.push({"kind": array}, ranks=0)
    back = four.pull("kind", ranks=0)[0]
    assert type(back) is type(array)
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_functions_and_several_names_travel_together(four):
    base = 10
    four.push({"add": lambda x: x + base, "words": ["a", {"b": (1, 2)}], "nothing": None})
    result = four.run("(add(rank), words, nothing)")
    assert result[3].value_repr == "(13, ['a', {'b': (1, 2)}], None)"
    assert four.pull("add", ranks=2)[2](5) == 15


def test_a_class_of_the_cell_can_be_pulled(four):
    four.run("class Point:\n    def __init__(self, x): self.x = x\npoint = Point(rank)")
    assert [point.x for point in four.pull("point").values()] == [0, 1, 2, 3]


def test_objects_go_to_the_chosen_ranks_only(four):
    four.run("chosen = 'old'")
    four.push({"chosen": "new"}, ranks="0,2-3")
    assert [rank.value_repr for rank in four.run("chosen")] == ["'new'", "'old'", "'new'", "'new'"]
    assert four.pull("chosen", ranks=[1]) == {1: "old"}


@pytest.mark.parametrize(
    ("name", "thing", "kind"),
    [
        ("lock", threading.Lock(), "lock"),
        ("steps", (x for x in range(3)), "generator"),
    ],
)
def test_what_cannot_be_pickled_is_named_in_push(four, name, thing, kind):
    with pytest.raises(TransferError, match=rf"'{name}' .*{kind}.*plain data"):
        four.push({"fine": 1, name: thing})
    assert [rank.status for rank in four.run("fine_is_unknown = 'fine' in globals()")] == ["ok"] * 4


def test_an_unknown_name_is_named_with_its_rank(four):
    with pytest.raises(TransferError, match=r"ranks 0-3: .*'no_such_name'"):
        four.pull("no_such_name")
    four.run("partly = 1", ranks="0-2")
    with pytest.raises(TransferError, match=r"rank 3: .*'partly'"):
        four.pull("partly")


def test_objects_cannot_go_to_ranks_that_are_not_there(four):
    with pytest.raises(UnknownRanks):
        four.push({"x": 1}, ranks="4")
    with pytest.raises(UnknownRanks):
        four.pull("x", ranks=[9])


def test_nothing_may_be_pushed(four):
    four.push({})
    assert four.run("1").ok


def test_many_threads_may_push_and_pull(four, in_background):
    def round_trip(k):
        four.push({f"mine_{k}": np.full(1000, k)})
        return [int(array[0]) for array in four.pull(f"mine_{k}").values()]

    for k, done in enumerate([in_background(round_trip, k) for k in range(8)]):
        assert done.result(20) == [k] * 4


def test_a_rank_that_dies_while_it_is_asked_is_told(start):
    cluster = start("localhost:2")
    cluster.run(
        "import os\n"
        "class Deadly:\n"
        "    def __reduce__(self): os._exit(9)\n"
        "thing = Deadly() if rank == 1 else 1"
    )
    with pytest.raises(TransferError, match=r"rank 1: .*lost.*code 9"):
        cluster.pull("thing")
    assert cluster.pull("thing", ranks=0) == {0: 1}
