import re

import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.model.spec.liveness import (
    HealthPolicy,
    Liveness,
    assess,
    beat_interval_s,
    check_health,
    lost_at_s,
)

POLICY = HealthPolicy(interval_s=0.5, suspect_after_s=3, lost_after_s=10)


@pytest.mark.parametrize(
    ("silence_s", "verdict"),
    [
        (0, Liveness.ALIVE),
        (2.99, Liveness.ALIVE),
        (3, Liveness.SUSPECT),
        (9.99, Liveness.SUSPECT),
        (10, Liveness.LOST),
        (3600, Liveness.LOST),
    ],
)
def test_silence_is_judged_by_the_policy(silence_s, verdict):
    assert assess(1000 + silence_s, 1000, POLICY)[0] is verdict


def test_a_beat_from_the_future_counts_as_now():
    assert assess(999, 1000, POLICY) == (Liveness.ALIVE, "heartbeat 0.0 s ago")


def test_the_reason_of_a_loss_names_silence_and_limit():
    assert re.findall(r"[\d.]+ s", assess(1012.34, 1000, POLICY)[1]) == ["12.3 s", "10 s"]


@pytest.mark.parametrize(
    ("silence_s", "starved_s", "verdict"),
    [
        (10, 0.1, Liveness.SUSPECT),
        (15, 5.1, Liveness.SUSPECT),
        (15, 5, Liveness.LOST),
        (99, 99, Liveness.SUSPECT),
        (100, 100, Liveness.LOST),
        (2, 5, Liveness.ALIVE),
    ],
)
def test_time_without_a_core_is_excused_but_not_for_ever(silence_s, starved_s, verdict):
    assert assess(1000 + silence_s, 1000, POLICY, starved_s)[0] is verdict
    assert lost_at_s(1000, POLICY, 5) == 1015


def test_a_reason_tells_for_how_long_there_was_no_core():
    told = assess(1004.0, 1000, POLICY, 2.5)[1]
    assert re.findall(r"[\d.]+ s", told) == ["4.0 s", "2.5 s"]


@pytest.mark.parametrize(
    "policy",
    [
        HealthPolicy(suspect_after_s=12.0),
        HealthPolicy(interval_s=3.0),
        HealthPolicy(interval_s=0.0),
        HealthPolicy(lost_after_s=2.0),
    ],
)
def test_times_that_make_no_sense_together_are_refused(policy):
    with pytest.raises(UsageError, match=f"every {policy.interval_s:g} s"):
        check_health(policy)


def test_usual_times_make_sense():
    check_health(HealthPolicy())


@pytest.mark.parametrize(
    ("interval_s", "hosts", "asked_s"),
    [(1.0, 1, 1.0), (1.0, 250, 1.0), (1.0, 300, 1.2), (1.0, 4096, 1.5), (2.0, 4096, 2.0)],
)
def test_many_hosts_are_asked_less_often_but_twice_before_they_are_suspect(
    interval_s, hosts, asked_s
):
    policy = HealthPolicy(interval_s=interval_s, suspect_after_s=3.0, lost_after_s=10.0)
    assert beat_interval_s(policy, hosts) == asked_s
