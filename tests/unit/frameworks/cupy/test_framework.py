import gc
import importlib
import sys
import threading
import time
from types import SimpleNamespace

import msgspec
import pytest
from fakes.cupy_package import loaded, write_package
from fakes.surroundings import FakeSurroundings

from jupyter_dist.errors import CollectiveTimeout, FrameworkError, PeerFailed, UsageError
from jupyter_dist.frameworks.cupy import group as group_module
from jupyter_dist.frameworks.cupy.framework import CuPy
from jupyter_dist.frameworks.cupy.group import form_communicator
from jupyter_dist.frameworks.cupy.group_requests import GroupRequest, find_problem, write_number
from jupyter_dist.frameworks.cupy.store import BARRIER, StoreProxy
from jupyter_dist.frameworks.framework import GRACE_S
from jupyter_dist.frameworks.import_hooks import ImportHooks
from tests.patience import within

ARRAY = SimpleNamespace(dtype="float32", shape=(3,), nbytes=12)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """CuPy in small is what is imported."""
    write_package(tmp_path)
    for name in loaded():
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in loaded():
        del sys.modules[name]


def agreeing(around):
    """Have the other rank say the same, but for its number."""

    def others(_claim, facts):
        claim = msgspec.json.decode(facts, type=GroupRequest)
        other = 1 - around.info.rank
        return {other: msgspec.json.encode(msgspec.structs.replace(claim, rank=str(other)))}

    return others


@pytest.fixture
def around():
    made = FakeSurroundings(rank=0, world_size=2)
    made.others = agreeing(made)
    return made


@pytest.fixture
def cupy(around, package):
    hooks = ImportHooks()
    hooks.install()
    made = CuPy(around, hooks)
    made.install()
    yield made
    sys.meta_path.remove(hooks)


@pytest.fixture
def init(cupy):
    """Our init_process_group, as a user gets it."""
    return importlib.import_module("cupyx.distributed").init_process_group


def busy(backend):
    """Have the device be at work on what was begun last."""
    event = sys.modules["cupy.cuda"].Event.made[-1]
    event.done = False
    return event


def test_a_group_is_made_without_host_port_or_server(init, cupy, around):
    backend = init(2, 0, host="10.0.0.1", port=13333)
    assert backend._comm.made_of == (2, b"i" * 128, 0)
    assert around.claims == ["cupyx.distributed.init_process_group()"]
    formed = cupy.formed()
    assert (formed.world_size, formed.generation, formed.calls) == (2, 1, 0)


def test_other_ranks_get_the_id_that_rank_0_made(init, around):
    around.info = msgspec.structs.replace(around.info, rank=1)
    StoreProxy(around, 1)["nccl_id"] = b"j" * 128
    assert init(2, 1)._comm.made_of == (2, b"j" * 128, 1)


def test_its_barrier_is_ours_and_may_be_called_twice(init, around):
    backend = init(2, 0)
    before = len(around.compared)
    backend.barrier()
    backend.barrier()
    assert around.compared[before:] == [("cupy", (0, 1), BARRIER)] * 2


@pytest.mark.parametrize("value", [b"id", (1, -128, 127), 7])
def test_the_store_gives_what_it_was_given_in_any_version_of_cupy(around, value):
    StoreProxy(around, 1)["key"] = value
    assert StoreProxy(around, 1)["key"] == value
    with pytest.raises(KeyError):
        StoreProxy(around, 2)["key"]


@pytest.mark.parametrize(("args", "named"), [((3, 0), "3.* 2 "), (("two", 0), "'two'")])
def test_wrong_arguments_are_errors_before_anything_blocks(init, cupy, args, named):
    with pytest.raises(UsageError, match=f"n_devices .*{named}"):
        init(*args)
    assert cupy.formed() is None


def test_a_second_group_needs_the_end_of_the_first(init, cupy, around):
    backend = init(2, 0)
    around.variables = {"group": backend, "x": 1}
    with pytest.raises(UsageError, match=r"\(group\).*stop"):
        init(2, 0)
    backend.stop()
    assert cupy.formed() is None
    assert init(2, 0) is not backend


def test_a_group_that_nobody_has_is_no_group(init, cupy):
    backend = init(2, 0)
    del backend
    gc.collect()
    assert cupy.formed() is None
    assert init(2, 0) is not None


def test_ranks_that_made_different_numbers_of_groups_use_the_same_place(init, around):
    around.others = lambda _claim, facts: {
        1: msgspec.json.encode(
            msgspec.structs.replace(
                msgspec.json.decode(facts, type=GroupRequest), rank="1", number=4
            )
        )
    }
    init(2, 0)
    assert list(around.values) == ["cupy 5 nccl_id"]


def test_a_backend_made_by_hand_says_how_to_make_it(init, cupy):
    backend_type = sys.modules["cupyx.distributed"].NCCLBackend
    with pytest.raises(FrameworkError, match="init_process_group"):
        backend_type(2, 0)


def test_calls_are_recorded_and_counted_but_for_those_of_two_ranks(init, cupy, around):
    backend = init(2, 0)
    stream = sys.modules["cupy.cuda"].Stream(7)
    backend.all_reduce(ARRAY, ARRAY, stream=stream)
    backend.send(ARRAY, 1)
    backend.sparse(ARRAY)
    assert around.calls == [
        ("all_reduce", 1, "float32", "(3,)", 12, True),
        ("send", 2, "float32", "(3,)", 12, True),
        ("sparse", 2, "float32", "(3,)", 12, True),
    ]
    assert cupy.formed().calls == 2
    on_stream, on_current = sys.modules["cupy.cuda"].Event.made
    assert on_stream.streams == [stream]
    assert on_current.streams == [None, None]


def test_a_call_that_raises_is_recorded_as_such(init, around):
    backend = init(2, 0)
    backend._comm = None
    with pytest.raises(AttributeError):
        backend.all_reduce(ARRAY, ARRAY)
    assert around.calls[-1][-1] is False


def test_after_a_failure_calls_raise_until_the_next_cell(init, cupy):
    backend = init(2, 0)
    cupy.break_off(1, "raised ValueError")
    with pytest.raises(PeerFailed, match="rank 1 raised ValueError"):
        backend.all_reduce(ARRAY, ARRAY)
    cupy.expect_cell()
    backend.all_reduce(ARRAY, ARRAY)
    assert not cupy.formed().is_broken


def test_what_waits_for_a_failed_rank_is_aborted_after_a_grace(init, cupy):
    backend = init(2, 0)
    backend.all_reduce(ARRAY, ARRAY)
    busy(backend)
    cupy.break_off(1, "raised ValueError")
    cupy.look()
    assert not cupy.formed().is_broken
    time.sleep(GRACE_S)
    cupy.look()
    assert backend._comm.aborted.wait(2)
    assert cupy.formed().is_broken
    with pytest.raises(PeerFailed, match="rank 1 raised ValueError"):
        cupy.settle()
    nccl_error = sys.modules["cupy.cuda.nccl"].NcclError
    assert isinstance(cupy.explain(nccl_error("invalid argument")), PeerFailed)
    assert cupy.explain(ValueError()) is None


def test_what_waits_on_one_stream_is_seen_after_calls_on_another(init, cupy):
    backend = init(2, 0)
    backend.all_reduce(ARRAY, ARRAY)
    hung = busy(backend)
    backend.all_reduce(ARRAY, ARRAY, stream=sys.modules["cupy.cuda"].Stream(7))
    group = cupy._present
    assert group.is_busy
    cupy.break_off(1, "raised ValueError")
    time.sleep(GRACE_S)
    cupy.look()
    assert backend._comm.aborted.wait(2)
    hung.done = True
    with pytest.raises(PeerFailed, match="rank 1 raised ValueError"):
        cupy.settle()


def test_what_is_done_on_many_streams_is_forgotten(init, cupy):
    backend = init(2, 0)
    backend.all_reduce(ARRAY, ARRAY)
    hung = busy(backend)
    streams = [sys.modules["cupy.cuda"].Stream(number) for number in range(1, 1000)]
    for stream in streams:
        backend.all_reduce(ARRAY, ARRAY, stream=stream)
    events = cupy._present._events
    assert len(events) <= group_module._MOST_EVENTS
    assert hung in events.values()


def test_an_abort_does_not_wait_for_a_driver_that_does_not_answer(init, cupy):
    backend = init(2, 0)
    backend.all_reduce(ARRAY, ARRAY)
    cupy.break_off(1, "raised ValueError")
    time.sleep(GRACE_S)
    with sys.modules["cupy.cuda"].runtime.driver_lock, within(1):
        cupy.look()
        assert backend._comm.aborted.wait(2)
    assert cupy.formed().is_broken


def test_what_is_done_by_then_is_left_alone(init, cupy):
    backend = init(2, 0)
    backend.all_reduce(ARRAY, ARRAY)
    cupy.break_off(1, "raised ValueError")
    time.sleep(GRACE_S)
    cupy.look()
    assert not backend._comm.aborted.is_set()
    cupy.settle()


def test_a_cell_ends_when_the_device_has_done_its_calls(init, cupy):
    backend = init(2, 0)
    backend.all_reduce(ARRAY, ARRAY)
    event = busy(backend)
    timer = threading.Timer(0.1, lambda: setattr(event, "done", True))
    timer.start()
    cupy.settle()
    assert event.done
    timer.join()


def test_after_a_loss_the_group_is_given_up_and_its_variables_are_named(init, cupy, around):
    backend = init(2, 0)
    around.variables = {"group": backend, "also": backend, "x": ARRAY}
    [note] = cupy.form("", "rank 1 is new")
    assert note.startswith("also, group ")
    assert backend._comm.aborted.wait(2)
    assert cupy.formed() is None
    with pytest.raises(FrameworkError, match="rank 1 is new"):
        backend.all_reduce(ARRAY, ARRAY)
    assert init(2, 0) is not backend


def test_a_rank_without_cupy_forms_nothing_and_does_not_import_it(cupy):
    assert cupy.form("", "rank 1 is new") == ()
    assert loaded() == []


@pytest.mark.parametrize(
    ("failure", "error", "named"),
    [
        (group_module.Failure(-1, "interrupted", 0.0), PeerFailed, "interrupted"),
        (None, CollectiveTimeout, "NCCL_DEBUG"),
    ],
    ids=["an interrupt comes through", "it has an end"],
)
def test_a_group_that_does_not_form_is_given_up(package, monkeypatch, failure, error, named):
    monkeypatch.setattr(group_module, "INIT_TIMEOUT_S", 60 if failure else 0.1)
    released = threading.Event()
    with pytest.raises(error, match=named):
        form_communicator(released.wait, importlib.import_module("cupy").cuda, lambda: failure)
    released.set()


def claim(of_rank, **changes):
    usual = GroupRequest("2", str(of_rank), "nccl", False, "14.2.0", 22903)
    return msgspec.structs.replace(usual, **changes)


@pytest.mark.parametrize(
    ("changes", "expected", "is_mistake"),
    [
        ({}, "", False),
        ({"rank": "0"}, "on rank 1: the rank given is 0", True),
        ({"backend": "mpi"}, "on rank 1: backend is 'mpi'", True),
        ({"problem": "there is no GPU."}, "on rank 1: there is no GPU.", False),
        ({"use_mpi": True}, "use_mpi=True on rank 1 only", True),
        ({"nccl": 23203}, "rank 1: NCCL 2.32.3 with CuPy 14.2.0", False),
        ({"formed": "group"}, "on rank 1: there is a process group already (group)", True),
    ],
)
def test_what_ranks_say_must_go_together(changes, expected, is_mistake):
    problem, is_wrong = find_problem({0: claim(0), 1: claim(1, **changes)})
    assert expected in problem
    assert bool(problem) == bool(expected)
    assert is_wrong == is_mistake


def test_numbers_of_any_type_are_numbers():
    assert write_number(True) == "1"
    assert write_number(2.0) == "2.0"
    assert write_number("2") == "'2'"
