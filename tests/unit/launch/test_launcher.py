import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.launch.launcher import (
    keepalive_ms,
    keepalive_timeout_ms,
)


@pytest.mark.parametrize("is_local", [True, False])
@pytest.mark.parametrize(("lost_after_s", "silence_s"), [(2.0, 2.0), (4.0, 2.0), (10.0, 5.0)])
def test_half_of_the_time_is_left_to_dial_again(lost_after_s, silence_s, is_local):
    asked_ms, same_ms = (
        keepalive_ms(lost_after_s, 64, is_local=is_local, is_agent=is_agent)
        for is_agent in (True, False)
    )
    assert asked_ms == same_ms
    assert asked_ms + keepalive_timeout_ms(lost_after_s, is_local=is_local) == 1000 * silence_s
    assert asked_ms >= 1000


@pytest.mark.parametrize(
    ("lost_after_s", "hosts", "silence_s"),
    [(10.0, 64, 5.0), (10.0, 96, 5.75), (10.0, 128, 6.5), (10.0, 4096, 6.5), (2.0, 4096, 2.0)],
)
def test_many_hosts_are_asked_less_often_and_have_time_to_dial_again(
    lost_after_s, hosts, silence_s
):
    asked_ms = keepalive_ms(lost_after_s, hosts, is_local=False, is_agent=True)
    assert asked_ms + keepalive_timeout_ms(lost_after_s, is_local=False) == 1000 * silence_s


@given(st.floats(2.0, 600.0), st.integers(65, 10_000))
def test_agents_of_many_hosts_ask_before_the_coordinator_does(lost_after_s, hosts):
    agent_ms, coordinator_ms = (
        keepalive_ms(lost_after_s, hosts, is_local=False, is_agent=is_agent)
        for is_agent in (True, False)
    )
    later_ms = coordinator_ms - agent_ms
    assert later_ms >= 100, "the agent's question is on its way for less"
    noticed_ms = coordinator_ms + keepalive_timeout_ms(lost_after_s, is_local=False)
    assert noticed_ms - later_ms <= 1000 * lost_after_s


def test_an_answer_of_another_machine_may_take_longer():
    assert keepalive_timeout_ms(10.0, is_local=False) == 3500
    assert keepalive_timeout_ms(10.0, is_local=True) == 2000
