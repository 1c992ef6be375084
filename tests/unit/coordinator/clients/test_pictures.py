import pytest

from jupyter_dist.coordinator.clients.pictures import FRESH_WITHIN_S, WATCH_LEASE_S, Pictures
from jupyter_dist.model.hosts.axes import Axes
from jupyter_dist.model.hosts.rank import name_along
from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.protocol.messages import ShowPresence, TopologyChanged, WatchTopology


def describe(state="ready"):
    return Topology(cluster="demo", state=state)


@pytest.fixture
def drawn(starting):
    return Pictures(starting.rendezvous, starting.sender, describe)


def watch(drawn, now_s, interval_s=1.0, client=b"w"):
    drawn.hear(client, now_s)
    drawn.watch(client, WatchTopology("w1", interval_s), now_s)


def pictures(cluster, client=b"w"):
    return len(cluster.sender.told(TopologyChanged, client))


def test_one_picture_only_when_no_interval_is_given(drawn, starting):
    watch(drawn, 0.0, interval_s=0.0)
    drawn.tick(5.0)
    assert pictures(starting) == 1


def test_a_picture_at_once_and_then_at_the_interval(drawn, starting):
    watch(drawn, 0.0, interval_s=1.0)
    assert pictures(starting) == 1
    for tick in range(1, 31):
        drawn.tick(tick / 10)
    assert pictures(starting) == 4


def test_nobody_gets_pictures_faster_than_the_limit(drawn, starting):
    watch(drawn, 0.0, interval_s=0.001)
    for tick in range(1, 101):
        drawn.tick(tick / 100)
    assert pictures(starting) <= 6


def test_a_watcher_that_is_silent_is_forgotten_and_one_that_is_heard_is_not(drawn, starting):
    watch(drawn, 0.0)
    watch(drawn, 0.0, client=b"heard")
    drawn.hear(b"heard", 10.0)
    drawn.tick(WATCH_LEASE_S)
    assert (pictures(starting), pictures(starting, b"heard")) == (1, 2)


def test_asking_again_does_not_put_off_what_is_due(drawn, starting):
    """Presence is shown every 4 s; a picture wanted every 5 s must still come."""
    for second in range(21):
        if second % 4 == 0:
            watch(drawn, float(second), interval_s=5.0)
        drawn.tick(float(second))
    assert pictures(starting) >= 4


def test_asking_with_interval_0_ends_the_pictures(drawn, starting):
    watch(drawn, 0.0, interval_s=1.0)
    watch(drawn, 0.5, interval_s=0.0)
    assert pictures(starting) == 2
    for second in range(1, 10):
        drawn.hear(b"w", float(second))
        drawn.tick(float(second))
    assert pictures(starting) == 2


def test_a_picture_waits_a_moment_for_what_agents_see_now(starting):
    fresh = []
    drawn = Pictures(starting.rendezvous, starting.sender, describe, lambda: bool(fresh))
    watch(drawn, 1.0, interval_s=0.0)
    assert drawn.tick(1.1) == 1.0 + FRESH_WITHIN_S
    assert drawn.are_wanted
    fresh.append(True)
    drawn.tick(1.2)
    fresh.clear()
    assert pictures(starting) == 1
    assert not drawn.are_wanted
    watch(drawn, 2.0, interval_s=0.0)
    drawn.tick(2.0 + FRESH_WITHIN_S)
    assert pictures(starting) == 2, "an agent that does not answer hides nothing"


def test_who_shows_itself_gets_a_picture_of_a_generation_that_is_new_to_it(drawn, starting):
    watch(drawn, 0.0)
    for known in (-1, starting.rendezvous.generation, starting.rendezvous.generation):
        drawn.show_presence(b"w", ShowPresence("w2", known), 1.0)
    assert pictures(starting) == 2, "with that of the watch, which has ended"
    drawn.tick(5.0)
    assert pictures(starting) == 2


def test_who_knows_other_axes_gets_a_picture_too(drawn, starting):
    generation = starting.rendezvous.generation
    starting.roster.axes = Axes(("data",), (4,))
    drawn.show_presence(b"w", ShowPresence("w2", generation, axes=1), 1.0)
    assert pictures(starting) == 0
    drawn.show_presence(b"w", ShowPresence("w3", generation, axes=0), 1.0)
    assert pictures(starting) == 1
    name_along(Axes())


def test_the_last_picture_says_that_it_is_over(drawn, starting):
    watch(drawn, 0.0)
    drawn.say_farewell()
    assert starting.sender.told(TopologyChanged)[-1].topology.state == "stopped"
