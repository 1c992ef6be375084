"""Record clusters for the pages of docs: `python docs/recordings/record.py [NAME...]`.

Processes and losses are real; a recording has what a page of Jupyter Server is told of them, and
when. The many ranks need root and the programs of `make host-tools`: their hosts are network
namespaces of this machine.
"""

import contextlib
import gzip
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from jupyter_dist import Cluster  # noqa: E402
from jupyter_dist.errors import CellInterrupted, RankLost  # noqa: E402
from jupyter_dist.model.hosts.topology import Topology  # noqa: E402
from jupyter_dist.model.spec.cluster_spec import HostSpec  # noqa: E402
from jupyter_dist.server.cluster_follower import ClusterFollower, Heard, Picture  # noqa: E402
from tests.hosts.lab import HostsLab, why_not  # noqa: E402

MOST_BYTES = 200_000
PATIENCE_S = 120.0
GLANCE_S = 1.5
"""How long a picture stands still, so that a person sees it."""
READING_S = 4.0
HANG = """import numpy as np
loss = np.full(3, 0.5 + rank)
if rank != 2:  # a bug: rank 2 never calls it
    loss = comm.all_reduce(loss)
print(loss)"""
SETUP = """import numpy as np
weights, steps = np.zeros(4), 0"""
TRAIN = """import time
while steps < 1000:
    weights = comm.all_reduce(weights + 0.1 * rank) / comm.size
    steps += 1
    time.sleep(0.02)"""
ASK = 'print("has done its steps" if steps else "is new")'
WAVE = """import time
time.sleep(2 + rank % 64 / 8)
if rank % 64 == 0:
    print("rank", rank, "is done")"""
# Else all that wake up at once leave no core for who follows them.
GIVE_WAY = """import os
os.nice(9)"""
LONGER = """import time
time.sleep(8)"""


class Recorder:
    """Follows a cluster as a page does, and writes down what it is told."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._lines: list[tuple[float, dict[str, Any]]] = []
        self._topology = cluster.topology()
        self._news = threading.Condition()
        self._begin_s: float | None = None
        self._follower = ClusterFollower(cluster.name, self._hear)
        self.wait(lambda _: self._begin_s is not None)

    def moment(self, text: str, code: str = "") -> None:
        """Mark what a person does or sees now, and the cell that is run."""
        with self._news:
            self._write({"kind": "moment", "text": text, "code": code})

    def wait(self, is_so: Callable[[Topology], bool]) -> None:
        """Wait until the page has been told of this; raises TimeoutError."""
        with self._news:
            if not self._news.wait_for(lambda: is_so(self._topology), PATIENCE_S):
                raise TimeoutError(self._topology.note or "the page was not told of it")

    def wait_for(self, state: str, ranks: int | None = None) -> None:
        """Wait until so many ranks (None: all) are in this state, as pages are told."""
        wanted = self.cluster.world_size if ranks is None else ranks
        self.wait(lambda topology: [each.state for each in topology.engines].count(state) == wanted)

    def save(self, name: str, title: str) -> None:
        """Stop following, and write the file: a line that says what it is, then what was told."""
        self._follower.leave()
        self._follower.join(PATIENCE_S)
        lines = [{"title": title}, *self._lines]
        text = "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines)
        packed = gzip.compress(text.encode(), mtime=0)
        assert len(packed) < MOST_BYTES, f"{name} has {len(packed)} bytes"
        (HERE / f"{name}.jsonl.gz").write_bytes(packed)
        sys.stdout.write(f"{name}: {self._lines[-1][0]:.1f} s, {len(packed) / 1000:.0f} KB\n")

    def _hear(self, _: ClusterFollower, heard: Heard, text: str) -> None:
        said = json.loads(text)
        with self._news:
            if isinstance(heard, Picture):
                if self._begin_s is None:
                    self._begin_s = time.monotonic()
                self._topology = heard.topology
                self._write({"kind": "topology", "told": said["told"]})
            elif said["kind"] == "cell":
                kept = ("kind", "label", "is_running", "html")
                self._write({each: said[each] for each in kept})
            self._news.notify_all()

    def _write(self, said: dict[str, Any]) -> None:
        assert self._begin_s is not None, "nothing has been told yet"
        self._lines.append((round(time.monotonic() - self._begin_s, 2), said))


@contextlib.contextmanager
def recording(hosts: list[HostSpec] | str, before: str = "") -> Iterator[Recorder]:
    """Start a cluster, run a cell that is not recorded, and follow it."""
    with Cluster.start(hosts, name="demo", timeout_s=PATIENCE_S) as cluster:
        if before:
            cluster.run(before).raise_first()
        recorder = Recorder(cluster)
        recorder.wait_for("idle")
        recorder.moment(f"{cluster.world_size} ranks are ready")
        time.sleep(GLANCE_S)
        yield recorder


def hang() -> None:
    """Three ranks wait for one that never comes; ■ releases them."""
    with recording("localhost:4") as recorder:
        recorder.moment("a cell begins", HANG)
        cell = recorder.cluster.run_in_background(HANG)
        recorder.wait_for("hung", 3)
        recorder.moment("the hang is named")
        time.sleep(READING_S)
        recorder.moment("the cell is interrupted")
        recorder.cluster.interrupt()
        with contextlib.suppress(CellInterrupted):
            cell.wait()
        recorder.wait_for("idle")
        recorder.moment("all ranks are idle again")
        time.sleep(GLANCE_S)
        recorder.save("hang", "three ranks wait for one that never comes")


def lost_rank() -> None:
    """A process is killed, replaced, and the others have what they had."""
    with recording("localhost:4") as recorder:
        cluster = recorder.cluster
        recorder.moment("a cell marked --setup", SETUP)
        cluster.run(SETUP, is_setup=True).raise_first()
        time.sleep(GLANCE_S)
        recorder.moment("a loop over all_reduce", TRAIN)
        cell = cluster.run_in_background(TRAIN, label=2)
        time.sleep(2 * GLANCE_S)
        recorder.moment("the process of rank 2 is killed")
        os.kill(cluster.topology().engines[2].pid, signal.SIGKILL)
        with contextlib.suppress(RankLost):
            cell.wait()
        recorder.wait_for("lost", 1)
        recorder.wait_for("idle", 3)
        recorder.moment("rank 2 is lost, the others are idle")
        time.sleep(READING_S)
        recorder.moment("the lost rank is replaced")
        cluster.heal()
        recorder.wait_for("idle")
        recorder.moment("who has done its steps?", ASK)
        cluster.run(ASK, label=3).raise_first()
        time.sleep(READING_S)
        recorder.save("lost_rank", "a lost rank is replaced, the others keep their state")


def many_ranks(hosts: int = 8, ranks: int = 64) -> None:
    """Many ranks on many hosts, one of which is lost and replaced."""
    if reason := why_not():
        sys.stdout.write(f"many_ranks is left out: {reason}\n")
        return
    names = [f"node{number:02}" for number in range(1, hosts + 1)]
    with tempfile.TemporaryDirectory(prefix="hosts-lab-") as folder, HostsLab(names, folder) as lab:
        specs = [HostSpec(name, ranks, launcher="ssh", ssh=lab.ssh) for name in lab.names]
        with recording(specs, GIVE_WAY) as recorder:
            cluster = recorder.cluster
            recorder.moment("a cell begins", WAVE)
            cluster.run(WAVE).raise_first()
            recorder.wait_for("idle")
            recorder.moment("a longer cell", LONGER)
            cell = cluster.run_in_background(LONGER, label=2)
            recorder.wait_for("busy")
            recorder.moment("the process of rank 300 is killed")
            lab.run(names[300 // ranks], ["kill", "-9", str(cluster.topology().engines[300].pid)])
            recorder.wait_for("lost", 1)
            with contextlib.suppress(RankLost):
                cell.wait()
            recorder.wait_for("idle", hosts * ranks - 1)
            recorder.moment("rank 300 is lost, the others are idle")
            time.sleep(READING_S)
            recorder.moment("the lost rank is replaced")
            cluster.heal()
            recorder.wait_for("idle")
            recorder.moment("all ranks are idle again")
            time.sleep(GLANCE_S)
            title = f"{hosts * ranks} ranks on {hosts} hosts, one rank is lost and replaced"
            recorder.save("many_ranks", title)


SCENES: dict[str, Callable[[], None]] = {
    scene.__name__: scene for scene in (hang, lost_rank, many_ranks)
}


def main(names: list[str]) -> None:
    """Make the recordings with these names, or all."""
    unknown = set(names) - set(SCENES)
    if unknown:
        raise SystemExit(f"no such recording: {', '.join(unknown)}; there are {', '.join(SCENES)}")
    for name in names or SCENES:
        SCENES[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
