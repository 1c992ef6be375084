"""Clusters on the hosts of a lab: how tests start them, and what they may leave: nothing."""

import os

import pytest

from jupyter_dist import Cluster
from jupyter_dist.errors import StartFailed
from jupyter_dist.model.spec.cluster_spec import HostSpec
from tests.patience import Stopwatch
from tests.processes.conftest import ClusterFactory
from tests.processes.leftovers import wait_until
from tests.processes.results import values  # noqa: F401  (for tests of hosts, too)

GRACE_S = 15.0
"""Seconds after a cluster's end within which nothing of it may be left on any machine."""
START_TIMEOUT_S = 90.0
"""Nothing is measured by it."""


def skip_for(reason):
    """Skip the tests that need a lab for this reason, unless it is empty; where CI runs as root fail."""
    if reason and os.environ.get("CI") and os.geteuid() == 0:
        pytest.fail(f"CI must run these tests: {reason}")
    if reason:
        pytest.skip(reason)


class LabClusters(ClusterFactory):
    """Starts clusters on hosts of a lab, and stops them all in the end."""

    def __init__(self, home, lab):
        super().__init__(home)
        self._lab = lab

    def __call__(self, hosts=None, **options):
        """Start a cluster; options as in `Cluster.start`."""
        return super().__call__(hosts, **self._complete(options))

    def refusal(self, hosts=None, within_s=10.0, **options):
        """Give what StartFailed says of a start that must fail in time and leave nothing."""
        watch = Stopwatch()
        with pytest.raises(StartFailed) as caught:
            Cluster.start(hosts, **self._complete(options))
        watch.assert_less(within_s, str(caught.value))
        self.assert_nothing_left()
        return str(caught.value)

    def assert_nothing_left(self, within_s=GRACE_S):
        """Fail when soon anything of any cluster is still there, here or on a host."""
        watch = Stopwatch()
        self._home.assert_nothing_left(within_s)
        self._lab.assert_nothing_left(watch.left_s(within_s))

    def assert_no_process_left(self, within_s=GRACE_S):
        """As `assert_nothing_left`; but who was killed could not remove its files."""
        wait_until(
            lambda: not self._home.processes() and not any(map(self._ours, self._lab.names)),
            within_s,
            "all processes have ended, here and on all hosts",
        )

    def _ours(self, host):
        return [what for what in self._lab.leftovers(host) if ": file " not in what]

    def _complete(self, options):
        return {"ssh": self._lab.ssh, "timeout_s": START_TIMEOUT_S, **options}


def parts(refusal):
    """The lines before what hosts have said last, and those after it, of a StartFailed."""
    lines = refusal.splitlines()
    heads = [number for number, line in enumerate(lines) if line.startswith("--- ")]
    first = heads[0] if heads else len(lines)
    return lines[:first], lines[first:]


def crash(lab, host):
    """Cut a host's power; the next boot finds its folder of temporary files empty."""
    lab.crash(host)
    lab.remove_leftovers(host)


def waiting(name):
    """A host whose agent begins only when the file `go` lies in its home."""
    return HostSpec(name, 1, setup=("touch here; while [ ! -e go ]; do sleep 0.05; done",))
