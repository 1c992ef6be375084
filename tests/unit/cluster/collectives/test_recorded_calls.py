import msgspec
import pytest
from fakes.asked_line import AskedLine
from fakes.recorded import call, host, rank

from jupyter_dist.cluster.collectives.recorded_calls import CollectiveLog, read_collectives
from jupyter_dist.errors import UsageError
from jupyter_dist.protocol.messages import CollectivesRead

HOSTS = (host("a", rank(1, call("barrier", 1, 5, 6))), host("b", rank(0)))


def line_with(damage=bytes):
    """Answers with the records of HOSTS, the first in two frames."""
    first, second = (msgspec.msgpack.encode(each) for each in HOSTS)
    answer = CollectivesRead("r1", ("a", "b"), (2, 1), {"c": "gone"})
    return AskedLine(answer, memoryview(first)[:9], first[9:], damage(second))


def test_the_records_of_all_hosts_are_put_together():
    line = line_with()
    log = read_collectives(line, 3, last=20)
    assert [request.last for request, _ in line.asked] == [20]
    assert log == CollectiveLog(HOSTS, {"c": "gone"}, 3)
    assert list(log.ranks) == [0, 1]
    assert len(log.ranks[1].calls) == 1


def test_records_that_cannot_be_read_cost_those_of_no_other_host():
    log = read_collectives(line_with(lambda _: b"\xc1"), 3, last=20)
    assert log.hosts == HOSTS[:1]
    assert log.problems.keys() == {"b", "c"}


def test_a_table_can_be_made_of_them():
    table = read_collectives(line_with(), 3, last=0).table()
    assert [row.what for row in table.rows] == ["barrier()"]
    told, unknown = table.notes
    assert (told, unknown[-7:]) == ("c: gone", " rank 2")


def test_a_number_that_cannot_be_meant_is_refused_before_anybody_is_asked():
    line = line_with()
    with pytest.raises(UsageError, match="last=-1"):
        read_collectives(line, 3, last=-1)
    assert line.asked == []
