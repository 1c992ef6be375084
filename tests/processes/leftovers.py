"""What clusters have on this machine, seen from outside: processes, sockets and files."""

import contextlib
import os
import re
import signal
import time
from pathlib import Path

import psutil

from jupyter_dist import Cluster
from jupyter_dist.launch.processes.private_dir import make_private_dir
from tests.patience import Stopwatch, wait_until


def _is_probe(path):
    """Return whether a killed process has left it that just tried where `tempfile` may write."""
    with contextlib.suppress(OSError):
        return re.fullmatch("[a-z0-9_]{8}", path.name) and path.read_bytes() in (b"", b"blat")
    return False


class Home:
    """Directories of one test's own; whatever is started in them is found by its environment."""

    def __init__(self, root: Path, temp_dir: Path | None = None):
        self.runtime_dir = root / "runtime"
        self.temp_dir = temp_dir or root / "tmp"
        self._seen: dict[int, psutil.Process] = {}
        self._ports: set[int] = set()

    def enter(self, monkeypatch):
        """Make everything started from now on live here."""
        for variable, folder in (
            ("JUPYTER_RUNTIME_DIR", self.runtime_dir),
            ("TMPDIR", self.temp_dir),
        ):
            folder.mkdir(parents=True, exist_ok=True)
            monkeypatch.setenv(variable, str(folder))

    def processes(self):
        """Every living process of this home but this one; remembers them."""
        mark = b"\0TMPDIR=%b\0" % os.fsencode(self.temp_dir)
        for pid in psutil.pids():
            if pid == os.getpid() or pid in self._seen:
                continue
            with contextlib.suppress(OSError, psutil.Error):  # it has just ended
                if mark in b"\0" + Path(f"/proc/{pid}/environ").read_bytes():
                    self._seen[pid] = psutil.Process(pid)
        return [process for process in self._seen.values() if is_alive(process)]

    def remember(self, cluster):
        """Take note of all processes and listening sockets that the cluster has now."""
        coordinator = coordinator_of(cluster)
        for process in (coordinator, *coordinator.children(recursive=True)):
            self._seen[process.pid] = process
        self._ports.update(ports_of(*self.processes()))

    def leftovers(self):
        """What is left of everything that was ever here; empty is as it should be."""
        found = [
            f"process {process.pid}: {' '.join(command_of(process))}"
            for process in self.processes()
        ]
        if self._ports.intersection(listening("self").values()):
            found += [
                f"listening socket on port {connection.laddr.port}"
                for connection in psutil.net_connections("tcp")
                if connection.status == psutil.CONN_LISTEN
                and connection.laddr.port in self._ports
                and (connection.pid is None or connection.pid in self._seen)
            ]
        for folder in (self.runtime_dir, self.temp_dir):
            # Not rglob: it fails when a folder is removed meanwhile.
            for parent, folders, files in os.walk(folder):
                found += [
                    f"file {parent}/{name}"
                    for name in sorted(folders + files)
                    if not _is_probe(Path(parent, name))
                ]
        found += [f"file in memory {label}" for label in memory_files(os.getpid())]
        for pid in self._seen:
            found += [f"file {path}" for path in Path("/dev/shm").glob(f"jupyter-dist-*-{pid}-*")]
        return found

    def sweep(self):
        """Remove what killed processes have left, as a cluster that starts does, once all ended."""
        wait_until(lambda: not self.processes(), 15, "all processes have ended")
        Cluster.running()
        for folder in (self.temp_dir, Path("/dev/shm")):
            make_private_dir(folder).rmdir()

    def assert_nothing_left(self, within_s=0.0):
        """Fail, naming what is left; end it, so that other tests are not disturbed."""
        watch = Stopwatch()
        while (found := self.leftovers()) and not watch.is_over(within_s):
            time.sleep(0.02)
        for process in self.processes():
            process.kill()
        assert not found, "left behind:\n" + "\n".join(found)


def is_alive(process):
    """Tell whether it runs; a zombie has ended."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def name_of(process):
    """Give its name; empty when it has just ended."""
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


def ports_of(*processes):
    """Return the ports on which processes listen.

    Not by psutil, which reads the table of all connections, of thousands, for each process.
    """
    tables, found = {}, []
    for process in processes:
        with contextlib.suppress(OSError):  # it has just ended
            network = os.readlink(f"/proc/{process.pid}/ns/net")
            if network not in tables:
                tables[network] = listening(process.pid)
            held = set(_descriptors(process.pid))
            found += [port for socket, port in tables[network].items() if socket in held]
    return found


def _descriptors(pid):
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            yield os.readlink(f"/proc/{pid}/fd/{name}")


def listening(pid):
    """Return the ports of all sockets that listen in the network of a process."""
    tables = [Path(f"/proc/{pid}/net/{name}") for name in ("tcp", "tcp6")]
    return {
        f"socket:[{words[9]}]": int(words[1].rpartition(":")[2], 16)
        for table in tables
        if table.exists()  # not each machine has IPv6
        for words in map(str.split, table.read_text().splitlines()[1:])
        if words[3] == "0A"
    }


def coordinator_of(cluster):
    """The process that coordinates this cluster."""
    return psutil.Process(cluster._connection.coordinator_pid)


def agents_of(cluster):
    """The agent of each host, in the order of their ranks; those without living ranks come last."""
    ranks = {engine.pid: rank for rank, engine in enumerate(cluster.topology().engines)}

    def first_rank(agent):
        with contextlib.suppress(psutil.NoSuchProcess):
            own = {process.pid for process in agent.children(recursive=True)}
            return min((ranks[pid] for pid in own & ranks.keys()), default=len(ranks))
        return len(ranks)

    # Not in the order of their pids, which is not that of their starts: these begin again.
    return sorted(_children(coordinator_of(cluster), "jupyter_dist.agent"), key=first_rank)


def zygotes_of(cluster):
    """The zygote of each host."""
    return [
        zygote
        for agent in agents_of(cluster)
        for zygote in _children(agent, "jupyter_dist.engine.zygote")
    ]


def relays_of(cluster):
    """The relay of each host that has one."""
    return [
        child
        for zygote in zygotes_of(cluster)
        for child in zygote.children()
        if any(each.laddr.endswith("/relay") for each in child.net_connections("unix"))
    ]


def engines_of(cluster):
    """The engines in rank order."""
    return [psutil.Process(engine.pid) for engine in cluster.topology().engines]


def pids_of(cluster):
    """The process of each rank."""
    return {engine.rank: engine.pid for engine in cluster.topology().engines}


def kill_ranks(cluster, *ranks):
    """Kill ranks, and wait until the cluster knows."""
    known, states = pids_of(cluster), cluster.status
    for rank in ranks:
        os.kill(known[rank], signal.SIGKILL)
    wait_until(lambda: all(states().ranks[rank] == "lost" for rank in ranks), 5, "the loss is told")


def _children(process, module):
    return [child for child in process.children() if module in command_of(child)]


def command_of(process):
    """Its words; none where it has ended meanwhile."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def placed_files(cluster):
    """What pushes have put into memory: the coordinator holds it beside a file that is a proof."""
    return memory_files(coordinator_of(cluster).pid)[1:]


def memory_files(pid):
    """Return the files in memory that a process holds open."""
    links = []
    for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
        with contextlib.suppress(OSError):  # closed meanwhile
            links.append(os.readlink(descriptor))
    return [link for link in links if link.startswith("/memfd:jupyter-dist-")]
