import pytest

from jupyter_dist.coordinator.cells.answer_time import AnswerTimes
from jupyter_dist.protocol import host_agent_pb2 as pb

SIGNAL = "1-request-1@a"


@pytest.fixture
def times(cluster):
    return AnswerTimes(cluster.roster, cluster.sender)


@pytest.fixture
def tell(cluster):
    """Have the agent of the first host tell for how long its rank 0 has waited for a core."""

    def tell(waited_s, now_s, had_s=0.0):
        sample = pb.EngineSample(engine="0", core_s=had_s, core_wait_s=waited_s)
        cluster.roster.take_telemetry("a", pb.Telemetry(engines=[sample]), now_s)

    return tell


def test_all_time_counts_where_nothing_is_known_of_cores(times):
    times.begin(0, 10.0)
    assert times.passed_s(0, 12.0) == pytest.approx(2.0)


def test_waiting_for_a_core_does_not_count(times, tell):
    tell(7.0, now_s=10.0)
    times.begin(0, 10.0)
    tell(8.5, now_s=12.0)
    assert times.passed_s(0, 12.0) == pytest.approx(0.5)
    tell(8.5, now_s=14.0)
    assert times.passed_s(0, 14.0) == pytest.approx(2.5)


def test_a_rank_that_has_had_its_turns_is_not_excused(times, tell):
    tell(7.0, now_s=10.0, had_s=3.0)
    times.begin(0, 10.0)
    tell(8.5, now_s=12.0, had_s=3.5)
    assert times.passed_s(0, 12.0) == pytest.approx(2.0)


def test_what_its_agent_does_not_tell_in_time_does_not_count(times, tell):
    tell(7.0, now_s=10.0)
    times.begin(0, 10.0)
    assert times.passed_s(0, 12.5) == pytest.approx(1.0)


def test_time_counts_from_the_signal_on(times, cluster):
    cluster.sender.signals_under_way = {SIGNAL, "1-request-1@b"}
    times.look()
    times.begin(0, 10.0)
    assert times.passed_s(0, 11.0) == pytest.approx(0.1), "not quite nothing: see below"
    cluster.sender.signals_under_way.remove(SIGNAL)
    times.look()
    times.passed_s(0, 11.5)
    assert times.passed_s(0, 13.0) == pytest.approx(1.5)


def test_nothing_is_excused_for_ever(times, cluster, tell):
    cluster.sender.signals_under_way = {SIGNAL}
    times.look()
    tell(0.0, now_s=10.0)
    times.begin(0, 10.0)
    assert times.passed_s(0, 30.0) == pytest.approx(2.0)


def test_a_new_interrupt_counts_from_the_beginning(times):
    times.begin(0, 10.0)
    times.begin(0, 11.0)
    assert times.passed_s(0, 12.0) == pytest.approx(1.0)
