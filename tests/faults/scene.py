"""A cluster, whom something befalls in it, and files by which tests and ranks meet."""

from pathlib import Path

import psutil

from jupyter_dist.model.hosts.rank import name_ranks
from tests.processes.leftovers import relays_of, wait_until

from . import promises
from .faults import Outcome, process_of

_ASLEEP = psutil.STATUS_SLEEPING
REACHED_WITHIN_S = 10.0
BYSTANDER = 3
"""The rank that has to be replaced where the moment is one of healing."""


class Files:
    """Files by which tests and ranks meet."""

    def __init__(self, folder):
        self.here, self.go = Path(folder, "here"), Path(folder, "go")

    def wait_until_here(self, ranks):
        """Wait until each of these ranks has made its file."""
        wait_until(
            lambda: all(Path(f"{self.here}-{rank}").exists() for rank in ranks),
            REACHED_WITHIN_S,
            f"ranks {ranks} have come so far",
        )

    @property
    def hold(self):
        """Code that makes a file `here-RANK`, and waits for the file `go`."""
        return (
            f"open({str(self.here)!r} + '-' + str(rank), 'w').close()\n"
            f"while not os.path.exists({str(self.go)!r}): time.sleep(0.005)\n"
        )


class Scene(Files):
    """A cluster, and whom something befalls in it."""

    def __init__(self, patient, fault, folder, in_background):
        super().__init__(folder)
        cluster = self.cluster = patient.get()
        if fault.needs_relays and [each.status() for each in relays_of(cluster)] != [_ASLEEP] * 2:
            patient.close()
            cluster = self.cluster = patient.get()
        self.fault, self.victims, self.setup = fault, fault.victims, patient.setup
        self.in_background = in_background
        self.kept = promises.remember(cluster, folder.name)
        self.gone = set()
        assert cluster.run(f"deed = {fault.deed!r}", ranks=self.victims).ok

    @property
    def outcome(self):
        """What becomes of the victim."""
        return self.fault.outcome

    def strike(self):
        """Let it happen."""
        engines = self.cluster.topology().engines
        if self.outcome is Outcome.LOST:
            self.gone |= {engines[victim].pid for victim in self.victims}
        self.fault.cause(self.cluster, psutil.Process(engines[self.victims[0]].pid))

    def assert_is_told(self):
        """The status has every loss, with its reason."""
        for victim in self.victims:
            promises.assert_is_lost(self.cluster, victim, self.fault.words, self.fault.within_s)

    def assert_is_named(self, error):
        """An error names one of the victims, and what has befallen it."""
        text = str(error)
        names = [f"rank {victim}" for victim in self.victims]
        if len(names) > 1:
            names += ["127.0.0.1", name_ranks(self.victims)]  # their host, or all at once
        assert any(name in text for name in names), text
        assert self.fault.words in text, text

    def lose_bystander(self):
        """Let a rank be lost that has to be healed."""
        process = process_of(self.cluster, BYSTANDER)
        self.gone.add(process.pid)
        process.kill()
        promises.assert_is_lost(self.cluster, BYSTANDER, "SIGKILL", 5)
