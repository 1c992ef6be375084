import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.agent.host.telemetry import plan_looks
from jupyter_dist.model.hosts.looks import look_interval_s

hosts_of_a_cluster = st.integers(1, 10_000)
intervals_s = st.floats(0.2, 60.0)


@given(hosts_of_a_cluster, intervals_s)
def test_what_agents_tell_together_does_not_grow_without_end(hosts, interval_s):
    looks = plan_looks(interval_s, hosts)
    assert hosts / looks.close_s <= 200 * (1 + 1e-9)
    assert looks.close_s <= look_interval_s(hosts), "what is said of hangs counts on that"
    assert hosts / looks.rare_s <= 20 * (1 + 1e-9)
    assert looks.rare_s >= max(5.0, looks.close_s)
    assert looks.machine_s == interval_s, "as the user wants it"


@pytest.mark.parametrize("hosts", [1, 8, 40])
def test_few_hosts_are_looked_at_as_often_as_verdicts_want(hosts):
    assert look_interval_s(hosts) == 0.5
    assert plan_looks(2.0, hosts) == (2.0, 0.5, 5.0)
    assert plan_looks(0.2, hosts).close_s == 0.2
