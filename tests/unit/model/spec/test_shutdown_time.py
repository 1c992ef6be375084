"""Who asks for the end of a cluster waits longer than its coordinator may take."""

import pytest
from fakes.agent_process import FakeLauncher

from jupyter_dist.coordinator.agents.arrivals import Arrivals
from jupyter_dist.model.spec.cluster_spec import HostSpec
from jupyter_dist.model.spec.shutdown_time import (
    AGENT_END_S,
    AGENTS_WORD_S,
    CONTROLLER_END_S,
    longest_end_s,
)

LOCAL, JOINER = HostSpec("here", launcher="local"), HostSpec("join-1", launcher="join")


class SlowJob:
    """A job that takes all the time that it is given."""

    waited_s = 0.0

    def cancel(self):
        """Return at once."""

    def end(self, timeout_s):
        """Count the time."""
        self.waited_s += timeout_s


@pytest.mark.parametrize("hosts", [(LOCAL,), (JOINER,), (LOCAL, JOINER)])
def test_all_that_a_coordinator_waits_for_fits(hosts, tmp_path):
    job = SlowJob() if JOINER in hosts else None
    launcher = FakeLauncher()
    arrivals = Arrivals({"local": launcher}, tmp_path, job)
    arrivals.start(hosts)
    arrivals.end(AGENT_END_S)
    waited_s = CONTROLLER_END_S + AGENTS_WORD_S + AGENT_END_S + (job.waited_s if job else 0.0)
    assert waited_s < longest_end_s(hosts) < waited_s + 3
