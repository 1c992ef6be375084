"""Clusters to which something is done; after each test nothing of them is left."""

import pytest

from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec
from jupyter_dist.model.spec.liveness import HealthPolicy
from tests.processes.conftest import (  # noqa: F401  (fixtures for these tests, too)
    ClusterFactory,
    first_of_all,
    home,
    in_background,
    start,
    within,
)
from tests.processes.leftovers import Home

from .faults import ARM

for name in ("chaos", "hostile_steps", "moments", "promises", "scene", "walk"):
    pytest.register_assert_rewrite(f"tests.faults.{name}")

IMPATIENT = HealthPolicy(interval_s=0.25, suspect_after_s=1.0, lost_after_s=4.0)


def describe(*hosts, **options):
    """A cluster of some hosts on this machine, each with two ranks."""
    specs = tuple(HostSpec(host, 2) for host in hosts)
    return ClusterSpec(
        hosts=specs,
        **{
            "name": "faults",
            "communicator": "ring",
            "one_machine": True,
            "health": IMPATIENT,
            "timeout_s": 30.0,
            **options,
        },
    )


def sweep(place):
    """Remove what killed processes have left in a place."""
    place.sweep()


class Patient:
    """One cluster to which one thing after the other is done; a new one if it did not survive."""

    def __init__(self, root):
        self._root = root
        self.setup = root / "setup.py"
        """What new ranks do first; empty, unless a test writes into it."""
        self._count = 0
        self._factory = None

    def get(self):
        """Give a cluster of four armed ranks."""
        if self._factory is None:
            self._count += 1
            self.home = Home(self._root / str(self._count))
            with pytest.MonkeyPatch.context() as monkeypatch:
                self.home.enter(monkeypatch)
                self._factory = ClusterFactory(self.home)
                spec = describe("localhost", "127.0.0.1", relays="all")
                self.cluster = self._factory(None, spec=spec, timeout_s=90)
            self.setup.write_text("")
            for cell in (ARM, f"exec(open({str(self.setup)!r}).read())"):
                assert self.cluster.run(cell, is_setup=True).ok
        return self.cluster

    def close(self):
        """Stop it; nothing may be left."""
        if self._factory is not None:
            factory, self._factory = self._factory, None
            factory.close()
            with pytest.MonkeyPatch.context() as monkeypatch:
                self.home.enter(monkeypatch)
                sweep(self.home)
            self.home.assert_nothing_left(within_s=3)


@pytest.fixture(scope="module")
def patient(tmp_path_factory):
    """The cluster of this module."""
    patient = Patient(tmp_path_factory.mktemp("patient"))
    yield patient
    patient.close()
