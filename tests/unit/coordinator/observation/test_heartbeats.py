from unittest.mock import Mock

import pytest

from jupyter_dist.coordinator.observation.heartbeats import Heartbeats
from jupyter_dist.model.spec.liveness import HealthPolicy


@pytest.fixture
def rhythm():
    """Make heartbeats of so many hosts; `asked` has the times of their questions."""

    def make(hosts=1, **policy):
        roster = Mock(hosts=dict.fromkeys(map(str, range(hosts))))
        roster.present.return_value = []
        beats = Mock()
        made = Heartbeats(roster, beats, Mock(), Mock(), HealthPolicy(**policy), Mock())
        return made, beats.ask

    return make


def test_a_loop_that_is_awake_asks_a_little_sooner_and_one_that_sleeps_a_little_later(rhythm):
    heartbeats, ask = rhythm()
    heartbeats.tick(100.0)
    assert (heartbeats.due_s, heartbeats.latest_s) == pytest.approx((100.9, 101.1))
    heartbeats.tick(100.8)
    assert ask.call_count == 1
    heartbeats.tick(100.95)
    assert ask.call_count == 2


def test_who_wakes_the_loop_as_often_is_met_for_good_after_some_rounds(rhythm):
    heartbeats, _ = rhythm()
    heartbeats.tick(0.0)
    client_s, alone = 0.5, 0
    for _ in range(100):
        if client_s <= heartbeats.latest_s:
            heartbeats.tick(client_s)
            client_s += 1.002
        else:
            heartbeats.tick(heartbeats.latest_s)
            alone += 1
    assert alone <= 10


@pytest.mark.parametrize("hosts", [1, 250, 300, 375, 5000])
def test_each_rank_is_asked_twice_within_the_time_after_which_it_is_suspect(rhythm, hosts):
    heartbeats, _ = rhythm(hosts)
    heartbeats.tick(0.0)
    assert heartbeats.latest_s <= 1.5


def test_an_absence_counts_from_when_the_loop_had_to_be_there(rhythm):
    heartbeats, _ = rhythm()
    heartbeats.tick(10.0)
    heartbeats.tick(12.0)
    heartbeats._on_absence.assert_called_once_with(10.0)  # that it began with one, as at a start
    heartbeats.tick(12.0 + 1.1 + 1.05)
    assert heartbeats._on_absence.call_count == 2
