"""Count what a cluster costs: `python measure.py inside|outside RANKS [--strace]`, as JSON on stdout.

`inside` counts Python calls and messages by `inside/sitecustomize.py`, which has to be on the path
of all processes; `outside` what Linux tells of processes that are as they always are. The client is
this process, so that nothing else is in it.
"""

import contextlib
import json
import os
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import psutil

from jupyter_dist import Cluster
from jupyter_dist.cluster.connection.connection import Connection
from tests.processes.leftovers import agents_of, coordinator_of, engines_of, zygotes_of

TIMES = {2: 20, 8: 16, 64: 6}
LINES = 100
KEPT_AFTER = 50
MOST_QUICK = 8
"""Ranks, so few that what they do anyway does not hide what a start or a cell costs."""
REST_S = 3.0
"""After so long without work hosts are looked at rarely."""
IDLE_S = 5.0
"""That is as often as they are looked at then."""
BESIDE_S = 1.0
"""So long after a cell hosts are still looked at closely, as while cells run."""
TAKEN_OVER_S = 1.5
"""The link thread has taken over by then: after 1 s here, see `inside/sitecustomize.py`."""
WAIT_S = 2.0
WAITING = f"import time; time.sleep({TAKEN_OVER_S + WAIT_S + 1})"
TURNS = 10
QUIET_S = 0.01
LONGEST_S = 1.0
SLICE_S = 1.0
"""So long a client waits at a time: it looks around after each, and more often where all is slow."""
NAMES = ("python_calls", "messages", "bytes", "agent_messages", "agent_bytes", "blocks", "modules")
STANDING = ("blocks", "modules")


def roles_of(cluster):
    """Return the processes whose costs are told, by what they are."""
    return {
        "client": psutil.Process(),
        "coordinator": coordinator_of(cluster),
        "agent": agents_of(cluster)[0],
        "zygote": zygotes_of(cluster)[0],
        "engine": engines_of(cluster)[0],
    }


class Inside:
    """The counts that processes keep of themselves."""

    def __init__(self, cluster):
        self._times = TIMES[cluster.world_size]
        folder = Path(os.environ["COSTS_FOLDER"])
        self._files = {role: folder / str(each.pid) for role, each in roles_of(cluster).items()}

    def read(self):
        """Return all counts of each process."""
        return {
            role: dict(zip(NAMES, struct.unpack(f"{len(NAMES)}q", path.read_bytes()), strict=True))
            for role, path in self._files.items()
        }

    def settled(self):
        """Return the counts once the other processes do nothing more for now."""
        end_s = time.monotonic() + LONGEST_S
        before = self.read()
        while time.monotonic() < end_s:
            time.sleep(QUIET_S)
            now = self.read()
            if all(now[role] == before[role] for role in now if role != "client"):
                break
            before = now
        return self.read()

    def count(self, action):
        """Return what one call of `action` costs each process: the lower quartile of many."""
        found = []
        for _ in range(self._times):
            before = self.settled()
            client_before = self.read()["client"]
            action()
            client = self.read()["client"]
            after = self.settled()
            before["client"], after["client"] = client_before, client
            found.append(_difference(before, after))
        return {
            role: {
                name: sorted(each[role][name] for each in found)[self._times // 4]
                for name in found[0][role]
            }
            for role in self._files
        }

    def each_second(self, span_s):
        """Return what each other process does in a second, over this span."""
        before, began_s = self.read(), time.monotonic()
        time.sleep(span_s)
        took_s = time.monotonic() - began_s
        return {
            role: {name: round(value / took_s, 1) for name, value in each.items()}
            for role, each in _difference(before, self.read()).items()
            if role != "client"
        }


def _difference(before, after):
    return {
        role: {
            name: after[role][name] - before[role][name] for name in NAMES if name not in STANDING
        }
        for role in after
    }


def inside(ranks):
    """Return the costs that processes count of themselves, by event."""
    with (
        Cluster.start(f"localhost:{ranks}", comm="ring", timeout_s=120) as cluster,
        mock.patch.object(Connection.receive, "__defaults__", (SLICE_S,)),
    ):
        counts = Inside(cluster)
        start = counts.settled()
        found = {"start": start}
        payload = bytes(1 << 20)
        cluster.run("import sys")
        for _ in range(3):
            cluster.run("")
        found["cell"] = counts.count(lambda: cluster.run(""))
        lines = counts.count(lambda: cluster.run(f"for k in range({LINES}): print(k)"))
        found["line"] = {
            role: {
                name: round((value - found["cell"][role][name]) / LINES, 2)
                for name, value in each.items()
            }
            for role, each in lines.items()
        }
        found["push"] = counts.count(lambda: cluster.push({"pushed": payload}))
        before = counts.settled()
        for _ in range(KEPT_AFTER):
            cluster.run("")
        after = counts.settled()
        for role, each in found["cell"].items():
            each["blocks_kept"] = round(
                (after[role]["blocks"] - before[role]["blocks"]) / KEPT_AFTER, 1
            )
        if ranks <= MOST_QUICK:  # many look as often as cores are there
            with ThreadPoolExecutor(1) as beside:
                waiting = beside.submit(cluster.run, WAITING)
                time.sleep(TAKEN_OVER_S)
                found["wait"] = counts.each_second(WAIT_S)
                waiting.result()
        time.sleep(REST_S)
        found["idle"] = counts.each_second(IDLE_S)
    if ranks > MOST_QUICK:  # beats come in each cell; how the coordinator's costs grow has a test
        for event in ("cell", "line", "push"):
            found[event] = {role: found[event][role] for role in ("client", "engine")}
    # A long start tells of itself all the time: what that costs is not its own.
    kept = NAMES[:-2] if ranks <= MOST_QUICK else ()
    found["start"] = {
        role: {name: each[name] for name in (*kept, "modules")} for role, each in start.items()
    }
    return found


def wakeups(process):
    """Return how often its threads have gone to sleep on their own."""
    count = 0
    for path in Path(f"/proc/{process.pid}/task").glob("*/status"):
        with contextlib.suppress(OSError):
            count += int(path.read_text().split("voluntary_ctxt_switches:")[1].split()[0])
    return count


def standing(process):
    """Return what a process has."""
    rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    return {
        "threads": process.num_threads(),
        "fds": process.num_fds(),
        "pss_mib": round(int(rollup.split("\nPss:")[1].split()[0]) / 1024, 1),
    }


class Traced:
    """Counts system calls of processes inside `with`."""

    def __init__(self, processes):
        self._processes = processes
        self.counts = {}

    def __enter__(self):
        self._tracers = {
            role: subprocess.Popen(
                ["strace", "-c", "-f", "-p", str(process.pid)], stderr=subprocess.PIPE, text=True
            )
            for role, process in self._processes.items()
        }
        for role, tracer in self._tracers.items():
            line = tracer.stderr.readline()
            assert "attached" in line, f"{role}: {line}"
        return self

    def __exit__(self, *_):
        for role, tracer in self._tracers.items():
            tracer.send_signal(2)
            table = tracer.communicate(timeout=20)[1]
            total = [line.split() for line in table.splitlines() if line.endswith(" total")]
            self.counts[role] = int(total[0][3]) if total else 0


def wakeups_of(processes, action):
    """Return how often each process wakes up in `action`, and how many seconds that takes."""
    before, began_s = {role: wakeups(each) for role, each in processes.items()}, time.monotonic()
    action()
    took_s = time.monotonic() - began_s
    return {role: wakeups(each) - before[role] for role, each in processes.items()}, took_s


def system_calls_of(processes, action):
    """Return the system calls of each process in `action`, and how many seconds that takes."""
    with Traced(processes) as traced:
        began_s = time.monotonic()
        action()
        took_s = time.monotonic() - began_s
    return traced.counts, took_s


def outside(ranks, with_strace):
    """Return the costs that Linux tells, by event.

    What processes do each second anyway while cells run is taken off those of a cell and a push:
    how long these take depends on the machine.
    """
    with Cluster.start(f"localhost:{ranks}", comm="ring", timeout_s=120) as cluster:
        processes = roles_of(cluster)
        del processes["client"]
        cluster.run("")
        time.sleep(1.0)  # memory and threads of the start go by and by
        found = {"start": {role: standing(process) for role, process in processes.items()}}
        events = {"idle": ({role: {} for role in processes})}
        actions = {
            "cell": lambda: cluster.run(""),
            "push": lambda payload=bytes(1 << 20): cluster.push({"pushed": payload}),
        }
        ways = {"wakeups": wakeups_of} | ({"syscalls": system_calls_of} if with_strace else {})
        for name, count in ways.items():
            time.sleep(REST_S)
            idle, took_s = count(processes, lambda: time.sleep(IDLE_S))
            for role, number in idle.items():
                events["idle"][role][name] = round(number / took_s, 1)
            if ranks > MOST_QUICK:  # their beats are many more than what a cell costs
                continue
            cluster.run("")
            beside, took_s = count(processes, lambda: time.sleep(BESIDE_S))
            each_s = {role: number / took_s for role, number in beside.items()}
            for event, action in actions.items():
                counts, took_s = count(processes, lambda act=action: [act() for _ in range(TURNS)])
                for role, number in counts.items():
                    own = max(0.0, number - each_s[role] * took_s) / TURNS
                    events.setdefault(event, {}).setdefault(role, {})[name] = round(own, 1)
    return found | events


if __name__ == "__main__":
    kind, ranks = sys.argv[1], int(sys.argv[2])
    counted = inside(ranks) if kind == "inside" else outside(ranks, "--strace" in sys.argv)
    json.dump(counted, sys.stdout)
