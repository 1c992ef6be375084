import msgspec
import pytest
from fakes.recorded import call, cell, host, rank

from jupyter_dist.model.ranks.records import (
    HostRecords,
    group_ranks,
    is_symmetric,
    name_group,
    tell_group,
)


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (call("all_reduce", 3, 0), "all_reduce(float32[4], sum)"),
        (call("barrier", 3, 0), "barrier()"),
        (call("broadcast", 3, 0, dtype="int8", root=2), "broadcast(int8[], root=2)"),
        (call("recv", 3, 0, dtype="int8", shape="2,3", root=1), "recv(int8[2,3], source=1)"),
        (call("send_recv", 3, 0, dtype="int8", root=1), "send_recv(int8[], dest=1)"),
        (call("scatter_object", 3, 0, root=0), "scatter_object(root=0)"),
        (call("jit(step)", 3, 0, group="0-3~jax"), "jit(step)"),
        (call("jit(step)", 3, 0, dtype="float32", shape="8,4"), "jit(step)(float32[8,4])"),
    ],
)
def test_a_call_reads_as_the_user_wrote_it(record, text):
    assert str(record) == text


def test_what_counts_calls_is_told_apart():
    operations = ("all_reduce", "barrier", "all_gather_object", "barrier_object", "send", "group")
    counters = [call(operation, 1, 0).counter for operation in operations]
    assert counters == ["collectives"] * 2 + ["objects"] * 2 + ["messages"] * 2


@pytest.mark.parametrize(
    ("name", "ranks"),
    [
        *(("0,2-4", (0, 2, 3, 4)), ("0,2~3", (0, 2)), ("0-3~jax", (0, 1, 2, 3))),
        *(("0,2…98", ()), ("", ()), ("0-99999999999", ())),
    ],
)
def test_members_of_a_group_are_read_from_its_name_where_it_tells_them(name, ranks):
    assert group_ranks(name) == ranks


def test_a_group_is_named_by_its_ranks_only():
    assert name_group("0,2~3") == "0,2"


def test_a_collective_of_a_framework_is_counted_by_it_whatever_its_name():
    names = "jit(step)", "jit(object)", "all_gather_object"
    counters = [call(name, 1, 0, group="0-3~torch").counter for name in names]
    assert counters == ["collectives"] * 3
    assert call("send", 1, 0, group="0-3~torch").is_message


@pytest.mark.parametrize(
    ("group", "text"),
    [
        ("", ""),
        ("0,2~3", " of group 0,2"),
        ("0-3~jax", " of JAX"),
        ("0~torch", " of torch"),
        ("0,2~cupy", " of CuPy on 0,2"),
        ("2-3~mpi", " of MPI on 2-3"),
        ("0,2…98~jax", " of JAX on 0,2…98"),
    ],
)
def test_whose_a_call_is_can_be_told(group, text):
    assert tell_group(group) == text


@pytest.mark.parametrize(
    ("operation", "group", "is_alike"),
    [
        ("all_reduce", "", True),
        ("all_gather_object", "", False),
        ("broadcast", "", False),
        ("jit(step)", "", False),
        ("jit(step)", "0-3~jax", True),
        ("all_gather_into_tensor", "0-3~torch", True),
        ("broadcast", "0-3~torch", False),
    ],
)
def test_in_what_all_ranks_have_the_same_part_is_known(operation, group, is_alike):
    assert is_symmetric(operation, group) is is_alike


def test_records_cross_the_wire_as_they_are():
    records = host("a", rank(0, call("all_reduce", 1, 5, 6), cells=[cell(1, 1, 9)], omitted=3))
    data = msgspec.msgpack.encode(records)
    assert msgspec.msgpack.decode(data, type=HostRecords) == records
    assert b"start_ns" not in data, "thousands of calls do not repeat the names of their fields"
