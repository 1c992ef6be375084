"""Ray's own test cluster of two nodes, in a process of its own: its client may end that."""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.processes.leftovers import wait_until

_CPUS = 2
_PROGRAM = """
import os, shutil, sys, tempfile
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
import ray
from ray.cluster_utils import Cluster
folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
usual = {"num_cpus": CPUS, "object_store_memory": 80 << 20}
cluster = Cluster(True, head_node_args=usual | {"include_dashboard": False, "temp_dir": folder})
other = cluster.add_node(**usual)
ray.init(address=cluster.address, logging_level="ERROR", log_to_driver=False)
print(cluster.address, file=answers, flush=True)
for line in sys.stdin:
    match line.strip():
        case "free":
            answer = ray.available_resources().get("CPU", 0.0)
        case "groups":
            from ray.util.placement_group import placement_group_table, remove_placement_group
            groups = [id for id, group in placement_group_table().items() if group["state"] == "CREATED"]
            answer = len(groups)
        case "remove":
            from ray.util.placement_group import PlacementGroup, placement_group_table, remove_placement_group
            for id, group in placement_group_table().items():
                if group["state"] == "CREATED":
                    remove_placement_group(PlacementGroup(ray.PlacementGroupID(bytes.fromhex(id))))
            answer = "removed"
        case "kill":
            cluster.remove_node(other, allow_graceful=False)
            other = None
            answer = "killed"
        case "mend":
            other = other or cluster.add_node(**usual)
            answer = "mended"
    print(answer, file=answers, flush=True)
ray.shutdown()
cluster.shutdown()
shutil.rmtree(folder, ignore_errors=True)
"""


class RayLab:
    """Two nodes, which are up inside `with`."""

    def __enter__(self):
        program = _PROGRAM.replace("CPUS", str(_CPUS))
        # Ray leaves its address there, also where all else has another folder, and fails without.
        Path(tempfile.gettempdir(), "ray").mkdir(exist_ok=True)
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self.address = self._process.stdout.readline().strip()
        if not self.address:
            self.__exit__()
            raise RuntimeError(f"Ray has not started: {self._said}")
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()
        self._log.seek(0)
        self._said = self._log.read().decode(errors="replace")[-4000:]
        self._log.close()

    def kill_node(self):
        """End the second node at once."""
        self._ask("kill")

    def remove_group(self):
        """Take away the placement group, as an administrator may."""
        self._ask("remove")

    def mend(self):
        """Have both nodes again."""
        self._ask("mend")
        wait_until(lambda: self.free() == 2 * _CPUS, 30, "both nodes of Ray are there")

    def free(self):
        """How many CPUs are not claimed."""
        return float(self._ask("free"))

    def groups(self):
        """How many placement groups there are."""
        return int(self._ask("groups"))

    def assert_free(self):
        """Fail when something is not given back soon."""
        wait_until(lambda: self.groups() == 0, 15, "no placement group is left")
        wait_until(lambda: self.free() % _CPUS == 0, 15, "all CPUs of Ray are free")

    def _ask(self, what):
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()
