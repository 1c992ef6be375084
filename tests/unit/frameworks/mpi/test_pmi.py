import pytest

from jupyter_dist.frameworks.mpi.pmi import PmiTable, Stranger, map_processes, read_fields


def join(table, member, rank, secret="abc"):
    line = f"cmd=join secret={secret} rank={rank} mapping=(vector,(0,1,2))"
    return table.answer(member, line)


@pytest.fixture
def two():
    """Ranks 0 and 1 by connections 10 and 11."""
    table = PmiTable(2, "abc")
    assert join(table, 10, 0) == [(10, "cmd=joined")]
    assert join(table, 11, 1) == [(11, "cmd=joined")]
    return table


def test_what_a_rank_puts_the_others_get(two):
    two.answer(10, "cmd=put kvsname=x key=-addr-0 value=tcp 10.0.0.1=4711")
    reply = "cmd=get_result rc=0 msg=success value=tcp 10.0.0.1=4711"
    assert two.answer(11, "cmd=get kvsname=x key=-addr-0") == [(11, reply)]
    [(_, missing)] = two.answer(11, "cmd=get kvsname=x key=other")
    assert "rc=-1" in missing


def test_the_barrier_releases_all_when_the_last_has_come_and_again(two):
    for _ in range(3):
        assert two.answer(11, "cmd=barrier_in") == []
        released = two.answer(10, "cmd=barrier_in")
        assert sorted(released) == [(10, "cmd=barrier_out rc=0"), (11, "cmd=barrier_out rc=0")]


def test_a_rank_that_has_gone_waits_in_no_barrier(two):
    two.answer(10, "cmd=barrier_in")
    two.forget(10)
    assert two.answer(11, "cmd=barrier_in") == []
    assert join(two, 12, 0) == [(12, "cmd=joined")]
    assert len(two.answer(12, "cmd=barrier_in")) == 2


@pytest.mark.parametrize(
    "line",
    [
        "cmd=init pmi_version=1 pmi_subversion=1",
        "cmd=join secret=wrong rank=0 mapping=x",
        "cmd=join secret= rank=0 mapping=x",
        "cmd=join secret=abc rank=2 mapping=x",
        "cmd=join secret=abc rank=-1 mapping=x",
        "cmd=join secret=abc rank=x mapping=x",
        "cmd=join secret=abc mapping=x",
        "",
        "GET / HTTP/1.1",
    ],
)
def test_strangers_take_no_place(line):
    table = PmiTable(2, "abc")
    with pytest.raises(Stranger):
        table.answer(1, line)


def test_a_place_is_taken_once(two):
    with pytest.raises(Stranger, match="rank 1 "):
        join(two, 12, 1)


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        ("init", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"),
        ("get_universe_size", "cmd=universe_size size=2"),
        ("get_appnum", "cmd=appnum appnum=0"),
        ("finalize", "cmd=finalize_ack rc=0"),
        ("spawn", "cmd=spawn_result rc=-1 msg=not_supported"),
    ],
)
def test_questions_of_mpi_are_answered(two, command, reply):
    assert two.answer(10, f"cmd={command}") == [(10, reply)]


def test_all_ranks_have_the_same_name_of_the_world_and_other_worlds_another(two):
    ask = "cmd=get_my_kvsname"
    assert two.answer(10, ask)[0][1] == two.answer(11, ask)[0][1]
    other = PmiTable(1, "abc")
    join(other, 1, 0)
    assert other.answer(1, ask)[0][1] != two.answer(10, ask)[0][1]


def test_mpi_is_told_which_rank_is_on_which_host(two):
    [(_, reply)] = two.answer(10, "cmd=get kvsname=x key=PMI_process_mapping")
    assert reply.endswith("value=(vector,(0,1,2))")


@pytest.mark.parametrize(
    ("host_ranks", "mapping"),
    [
        ([0, 0, 0, 0], "(vector,(0,1,4))"),
        ([0, 0, 1, 1], "(vector,(0,2,2))"),
        ([0, 0, 1], "(vector,(0,1,2),(1,1,1))"),
        ([0, 1, 0], "(vector,(0,2,1),(0,1,1))"),
        ([0], "(vector,(0,1,1))"),
    ],
)
def test_hosts_are_written_in_runs(host_ranks, mapping):
    assert map_processes(host_ranks) == mapping


def test_a_value_goes_to_the_end_of_its_line():
    assert read_fields("cmd=put key=a value=b c=d") == {"cmd": "put", "key": "a", "value": "b c=d"}
