import re
import struct
import threading

import numpy as np
import pytest
from fakes.call_records import FakeRecorder
from fakes.control import FakeControl, FakeHouse, every, on_ranks

from jupyter_dist.collective.communicator import NoCommunicator
from jupyter_dist.collective.group import Group
from jupyter_dist.collective.objects.object_collectives import ObjectCollectives
from jupyter_dist.errors import (
    CollectiveTimeout,
    CommunicatorError,
    PeerFailed,
    TransferError,
    UsageError,
    ValuesDiffer,
)


class Comm(ObjectCollectives):
    """A communicator that can do nothing but object collectives."""

    def __init__(self, control, size, **group):
        super().__init__(
            Group(**{"rank": control.rank, **group}, size=size, generation=1),
            FakeRecorder(),
            control,
        )
        self.participants = None
        self.timeout_s = 20.0


class Fragile:
    """Can be pickled, but not rebuilt."""

    def __reduce__(self):
        return _break, ()


def _break():
    raise RuntimeError("no device")


def calls(comm):
    return [str(call) for call in comm.recorder.calls]


def run(size, call):
    """Call it with a communicator on each rank; give results and exceptions."""
    return on_ranks(size, lambda control: call(Comm(control, size)))


def refusal(call, error):
    """Call it as rank 1 of 3; give the text of the error, after which nothing may be sent."""
    comm = Comm(FakeControl(1, FakeHouse()), 3)
    with pytest.raises(error) as caught:
        call(comm)
    assert comm.control.collectives == []
    assert comm.recorder.calls == []
    return str(caught.value)


# --- each of them -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "call", "found"),
    [
        (3, lambda c: c.broadcast_object({"from": c.rank}, root=1), [{"from": 1}] * 3),
        (2, lambda c: c.broadcast_object("a" if c.rank == 0 else None), ["a"] * 2),
        # Elsewhere the object is ignored, even one that cannot be sent.
        (2, lambda c: c.broadcast_object(5 if c.rank == 0 else threading.Lock()), [5, 5]),
        (
            3,
            lambda c: c.all_gather_object((c.rank, "x" * c.rank)),
            [[(0, ""), (1, "x"), (2, "xx")]] * 3,
        ),
        (3, lambda c: c.gather_object(c.rank * 10, root=2), [None, None, [0, 10, 20]]),
        (2, lambda c: c.scatter_object(iter("ab") if c.rank == 0 else None), ["a", "b"]),
        (1, lambda c: c.all_gather_object("x"), [["x"]]),
        (1, lambda c: c.scatter_object(["x"]), ["x"]),
        (1, lambda c: c.gather_object("x"), [["x"]]),
        (1, lambda c: c.broadcast_object("x"), ["x"]),
    ],
)
def test_each_rank_gets_what_is_for_it_in_the_order_of_ranks(size, call, found):
    assert run(size, call) == found


def test_the_root_gets_its_own_object_back():
    given = ["a", np.arange(3), {"c": None}]
    found = run(3, lambda comm: comm.scatter_object(given if comm.rank == 1 else None, root=1))
    assert (found[0], found[2]) == ("a", {"c": None})
    assert found[1] is given[1]


def test_a_barrier_waits_for_all():
    late = threading.Event()
    passed = []

    def call(comm):
        if comm.rank == 1:
            late.wait(0.2)
            passed.append("late")
        comm.object_barrier("epoch")
        passed.append(comm.rank)

    every(run(3, call))
    assert passed[0] == "late"
    assert sorted(passed[1:]) == [0, 1, 2]


# --- exactness --------------------------------------------------------------------------------

PAYLOAD = struct.unpack("<d", struct.pack("<Q", 0x7FF8DEADBEEF0001))[0]


def test_the_bits_of_nan_arrive():
    (found, _) = run(2, lambda comm: comm.all_gather_object([PAYLOAD, np.array([PAYLOAD])]))
    for scalar, array in found:
        assert struct.pack("<d", scalar) == struct.pack("<d", PAYLOAD)
        assert array.tobytes() == struct.pack("<d", PAYLOAD)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(20)[::3],
        np.zeros((0, 3)),
        np.array(5.0),
        np.array(["a", "bc"]),
        np.array([{"k": 1}, None], dtype=object),
        np.array([(1, 2.0)], dtype="i4,f8"),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_arrays_arrive_and_can_be_written(array):
    def call(comm):
        found = [
            *comm.all_gather_object(array),
            *(comm.gather_object(array) or [array]),
            comm.broadcast_object(array if comm.rank == 0 else None),
            comm.scatter_object([array, array] if comm.rank == 0 else None),
        ]
        for one in found:
            assert (one.dtype, one.shape) == (array.dtype, array.shape)
            np.testing.assert_array_equal(one, array)
            assert one.flags.writeable
        return True

    every(run(2, call))


def test_what_is_gathered_shares_no_memory_with_what_was_given():
    def call(comm):
        mine = np.zeros(1000)
        found = [*comm.all_gather_object(mine), *(comm.gather_object(mine) or [])]
        for one in found:
            one[:] = 1
        assert not mine.any()
        assert not any(np.shares_memory(one, mine) for one in found)

    every(run(2, call))


# --- who takes part ---------------------------------------------------------------------------


def test_some_ranks_may_do_without_the_others():
    def call(comm):
        if comm.rank == 1:
            return None
        assert comm.broadcast_object(comm.rank, root=2, ranks=[2, 0]) == 2
        assert comm.scatter_object("ab" if comm.rank == 0 else None, ranks=(0, 2)) in "ab"
        comm.object_barrier(ranks={0, 2})
        return comm.all_gather_object(comm.rank, ranks=iter([0, np.int64(2)]))

    assert run(3, call) == [[0, 2], None, [0, 2]]


def test_by_default_those_take_part_that_run_the_cell():
    def call(comm):
        comm.participants = frozenset({0, 2})
        return None if comm.rank == 1 else comm.all_gather_object(comm.rank)

    assert run(3, call) == [[0, 2], None, [0, 2]]


def test_ranks_are_those_of_the_communicator_and_meetings_those_of_the_cluster():
    """Ranks 4 and 2 of the cluster are ranks 0 and 1 of a communicator."""
    house = FakeHouse()
    controls = {rank: FakeControl(rank, house) for rank in (4, 2)}
    found = {}

    def call(rank, world_rank):
        comm = Comm(controls[world_rank], 2, rank=rank, world_ranks=(4, 2), label="2,4")
        found[rank] = (
            comm.all_gather_object(f"rank {rank}"),
            comm.broadcast_object(f"from {rank}", root=1),
            comm.gather_object(rank, root=1),
            comm.scatter_object(["to 0", "to 1"] if rank == 0 else None),
            calls(comm),
        )

    threads = [threading.Thread(target=call, args=pair) for pair in ((0, 4), (1, 2))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    both, names = ["rank 0", "rank 1"], [
        "all_gather_object() #1 in group 2,4",
        "broadcast_object(root=1) #2 in group 2,4",
        "gather_object(root=1) #3 in group 2,4",
        "scatter_object(root=0) #4 in group 2,4",
    ]  # fmt: skip
    assert found[0] == (both, "from 1", None, "to 0", names)
    assert found[1] == (both, "from 1", [0, 1], "to 1", names)
    assert [m["ranks"] for m in controls[2].collectives] == [(4, 2)] * 4
    assert [m["root"] for m in controls[2].collectives] == [-1, 2, 2, 4]


@pytest.mark.parametrize(
    ("error", "call", "text"),
    [
        (UsageError, lambda comm: comm.all_gather_object(1, ranks=[0, 2]), "rank 1"),
        (UsageError, lambda comm: comm.all_gather_object(1, ranks=[1, 3]), "0 to 2"),
        (UsageError, lambda comm: comm.all_gather_object(1, ranks=[1, -1]), "0 to 2"),
        (UsageError, lambda comm: comm.all_gather_object(1, ranks=[1, 1]), "ranks=[1, 1]"),
        (UsageError, lambda comm: comm.all_gather_object(1, ranks=[]), "rank 1"),
        (UsageError, lambda comm: comm.broadcast_object(1, root=3), "0 to 2"),
        (UsageError, lambda comm: comm.broadcast_object(1, root=2, ranks=[0, 1]), "root=2, "),
        (UsageError, lambda comm: comm.gather_object(1, timeout_s=0), "timeout_s=0"),
        (UsageError, lambda comm: comm.object_barrier(timeout_s=float("nan")), "timeout_s=nan"),
        (UsageError, lambda comm: comm.scatter_object([1, 2], root=1), "2 objects for 3"),
        (
            UsageError,
            lambda comm: comm.scatter_object([1] * 3, root=1, ranks=[0, 1]),
            "3 objects for 2",
        ),
        (TypeError, lambda comm: comm.all_gather_object(1, ranks="0-1"), "ranks='0-1'"),
        (TypeError, lambda comm: comm.all_gather_object(1, ranks=1), "ranks=1"),
        (TypeError, lambda comm: comm.all_gather_object(1, ranks=[1, "2"]), "ranks='2'"),
        (TypeError, lambda comm: comm.broadcast_object(1, root="0"), "root='0'"),
        (TypeError, lambda comm: comm.broadcast_object(1, root=True), "root=True"),
        (TypeError, lambda comm: comm.scatter_object(None, root=1), "objs=None"),
        (TypeError, lambda comm: comm.scatter_object(3, root=1), "objs=3"),
    ],
)
def test_arguments_that_cannot_work_are_refused_before_anything_is_sent(error, call, text):
    assert text in refusal(call, error)


def test_without_a_coordinator_the_next_step_is_told():
    comm = NoCommunicator(Group(0, 2, 1))
    with pytest.raises(CommunicatorError, match="%%spmd"):
        comm.all_gather_object(1)


# --- objects that cannot travel ---------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda comm, obj: comm.broadcast_object(obj, root=1),
        lambda comm, obj: comm.all_gather_object(obj),
        lambda comm, obj: comm.gather_object(obj),
        lambda comm, obj: comm.scatter_object([1, 2, obj], root=1),
        lambda comm, obj: comm.assert_equal(obj),
    ],
)
def test_what_cannot_be_pickled_is_refused_before_anything_is_sent(call):
    assert "cannot pickle '_thread.lock'" in refusal(
        lambda comm: call(comm, threading.Lock()), TransferError
    )


def test_who_sent_what_cannot_be_rebuilt_is_named():
    def call(comm):
        comm.all_gather_object(Fragile() if comm.rank == 2 else 1)

    for error in run(3, call):
        assert isinstance(error, TransferError)
        assert re.search("rank 2.*no device", str(error))


# --- names and records ------------------------------------------------------------------------


def test_calls_are_numbered_and_recorded_as_people_read_them():
    comm = Comm(FakeControl(0, FakeHouse()), 1)
    comm.all_gather_object(b"x" * 1000)
    comm.broadcast_object(1, root=0, timeout_s=3)
    comm.object_barrier("epoch")
    comm.assert_equal(1, "weights")
    comm.object_barrier()
    assert calls(comm) == [
        "all_gather_object() #1",
        "broadcast_object(root=0) #2",
        "barrier_object() #3",
        "assert_equal_object() #4",
        "barrier_object() #5",
    ]
    assert [m["claim"] for m in comm.control.collectives] == [
        "all_gather_object() #1",
        "broadcast_object(root=0) #2",
        "barrier('epoch') #3",
        "assert_equal('weights') #4",
        "barrier() #5",
    ]
    assert [m["timeout_s"] for m in comm.control.collectives] == [20.0, 3.0, 20.0, 20.0, 20.0]
    assert {(m["site"], m["purpose"]) for m in comm.control.collectives} == {("In[3]:7", "objects")}
    assert comm.recorder.calls[0].signature.nbytes > 1000
    assert comm.recorder.ends == dict.fromkeys(range(5), True)
    assert all(len(call.operation.encode()) <= 24 for call in comm.recorder.calls)


def test_calls_of_some_ranks_are_counted_apart_and_name_them():
    def call(comm):
        comm.all_gather_object(1)
        if comm.rank != 1:
            comm.object_barrier(ranks=[0, 2])
        comm.all_gather_object(1)
        return calls(comm)

    found = run(3, call)
    assert found[1] == ["all_gather_object() #1", "all_gather_object() #2"]
    assert found[0] == [
        "all_gather_object() #1",
        "barrier_object() #1 in group 0,2",
        "all_gather_object() #2",
    ]


def test_numbers_begin_anew_with_each_cell():
    """A rank that missed a call in one cell is in step again in the next."""

    def call(comm):
        if comm.rank == 0:
            comm.object_barrier(ranks=[0])
            comm.counts[0, 1] += 1
        comm.control.cell_id = "cell-2"
        return comm.all_gather_object(comm.rank)

    assert every(run(2, call)) == [0, 1]


def test_a_call_that_fails_is_recorded_as_failed():
    comm = Comm(FakeControl(0, FakeHouse()), 2)
    with pytest.raises(CollectiveTimeout):
        comm.all_gather_object(1, timeout_s=0.05)
    assert comm.recorder.ends == {0: False}


def test_a_call_that_is_refused_by_the_way_does_not_count():
    comm = Comm(FakeControl(0, FakeHouse()), 1)
    meet = comm.control.meet

    def refuse(*_arguments, **_options):
        raise UsageError("too large")

    comm.control.meet = refuse
    with pytest.raises(UsageError):
        comm.all_gather_object(1)
    comm.control.meet = meet
    comm.all_gather_object(1)
    assert comm.control.collectives[0]["claim"] == "all_gather_object() #1"


def test_without_a_recorder_it_works_too():
    comm = Comm(FakeControl(0, FakeHouse()), 1)
    comm.recorder = None
    assert comm.all_gather_object(1) == [1]


def test_a_rank_that_fails_releases_the_others():
    def call(comm):
        return comm.scatter_object([1] if comm.rank == 0 else None)

    found = run(3, call)
    assert isinstance(found[0], UsageError)
    assert isinstance(found[1], PeerFailed)
    assert isinstance(found[2], PeerFailed)


# --- assert_equal -----------------------------------------------------------------------------


def test_equal_values_pass_with_one_exchange():
    def call(comm):
        comm.assert_equal({"w": np.ones(1000), "n": float("nan")})
        return len(comm.control.collectives)

    assert every(run(3, call)) == 1


def test_different_values_raise_the_same_error_on_all_ranks():
    def call(comm):
        weights = np.arange(6.0).reshape(2, 3)
        if comm.rank == 2:
            weights[1, 0] = 7.5
        with pytest.raises(AssertionError) as caught:
            comm.assert_equal({"layer": [weights]}, "model")
        assert comm.recorder.ends == {0: False}
        assert len(comm.recorder.calls) == 1
        error = caught.value
        assert isinstance(error, ValuesDiffer)
        return str(error), error.path, error.values

    text, path, values = every(run(4, call))
    assert path == "['layer'][0]"
    assert values == {"ranks 0-1,3": "3.0", "rank 2": "7.5"}
    for told in ("assert_equal('model') #1", path, "numpy.ndarray float64[2,3]", "[1, 0]"):
        assert told in text
    assert re.search(r"ranks 0-1,3 \w+ 3\.0, rank 2 \w+ 7\.5$", text)


def test_values_of_many_kinds_are_counted():
    (text, *_) = run(12, lambda comm: comm.assert_equal(comm.rank))
    assert str(text).endswith("and 4 more")
    assert len(text.values) == 12


def test_nan_may_be_asked_to_differ():
    found = run(2, lambda comm: comm.assert_equal(float("nan"), equal_nan=False))
    assert all(isinstance(error, ValuesDiffer) for error in found)


def test_some_ranks_may_compare():
    def call(comm):
        if comm.rank != 1:
            comm.assert_equal("same", ranks=[0, 2])
        return True

    every(run(3, call))
