import pytest

from jupyter_dist.coordinator.state.free_slots import find_seat
from jupyter_dist.protocol import host_agent_pb2 as pb


@pytest.fixture
def roster(cluster):
    """Ranks 0 and 1 on a, 2 and 3 on b; both hosts have four cores."""
    for host in cluster.roster.hosts.values():
        host.joined = pb.Joined(cpu_count=4)
    cluster.lose(1)
    return cluster.roster


def find(roster, rank=1, *, share=False):
    return find_seat(roster, rank, may_share_devices=share)


def test_a_rank_stays_where_it_was_while_its_host_is_up(roster):
    assert find(roster) == roster[1].info


def test_a_rank_of_a_lost_host_moves_to_one_with_a_core_to_spare(roster):
    roster.hosts["a"].is_lost = True
    seat = find(roster)
    assert (seat.rank, seat.host, seat.local_rank, seat.host_rank) == (1, "b", 2, 1)


def test_a_host_has_no_more_slots_than_cores(roster):
    roster.hosts["a"].is_lost = True
    roster.hosts["b"].joined = pb.Joined(cpu_count=2)
    assert find(roster) is None


def test_a_host_has_no_more_slots_than_devices_unless_they_may_be_shared(roster):
    roster.hosts["a"].is_lost = True
    roster.hosts["b"].devices = ("4", "5")
    roster[2].info = roster[2].info.__class__(2, 4, 0, 2, 1, "b", "4")
    assert find(roster) is None
    assert find(roster, share=True).device == "5"


def test_a_rank_that_moves_gets_devices_that_nobody_has(roster):
    roster.hosts["a"].is_lost = True
    host = roster.hosts["b"]
    host.devices, host.devices_per_engine = ("0", "1", "2", "3", "4", "5"), 2
    roster[2].info = roster[2].info.__class__(2, 4, 0, 2, 1, "b", "0,1")
    roster[3].info = roster[3].info.__class__(3, 4, 1, 2, 1, "b", "4,5")
    assert find(roster).device == "2,3"
    host.devices = host.devices[:4]
    assert find(roster) is None, "both shares are taken"


def test_a_host_that_gives_all_its_devices_to_one_rank_takes_no_other(roster):
    roster.hosts["a"].is_lost = True
    host = roster.hosts["b"]
    host.devices, host.devices_per_engine = ("0", "1"), 0
    assert find(roster) is None
    roster.lose(2, "gone")
    roster.lose(3, "gone")
    assert find(roster).device == "0,1"


def test_the_place_of_a_lost_neighbour_is_free(roster):
    roster.hosts["a"].is_lost = True
    roster.hosts["b"].joined = pb.Joined(cpu_count=2)
    roster.lose(2, "gone")
    seat = find(roster)
    assert (seat.host, seat.local_rank) == ("b", 0)
