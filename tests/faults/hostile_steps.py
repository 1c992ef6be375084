"""A walk with the steps of hostile programs: children, resets, odd output, pushes that block."""

import os
import subprocess

import psutil

from jupyter_dist import Cluster
from jupyter_dist.errors import TransferError
from tests.hostile import ends, output
from tests.hostile.displays import DISPLAYS
from tests.processes.leftovers import agents_of, is_alive, wait_until

from .chaos import Chaos
from .moments import Slow
from .scene import Files
from .walk import ANSWER_WITHIN_S, Rank, describe_ends

GONE_WITHIN_S = 5.0
RACING = 3
ODD_CELLS = [
    deed
    for deed in (*ends.EXCEPTIONS, *output.VALUES, *DISPLAYS)
    if deed.status in ("ok", "raised") and not deed.undo and deed.within_s <= 2
]
CHILDREN = {
    "a child": "pids = [subprocess.Popen(['sleep', '1000']).pid]",
    "a child in a session of its own": (
        "pids = [subprocess.Popen(['sleep', '1000'], start_new_session=True).pid]"
    ),
    "a grandchild": (
        "pids = [int(subprocess.run(['sh', '-c', 'sleep 1000 >/dev/null 2>&1 & echo $!'],"
        " capture_output=True).stdout)]"
    ),
    "a daemon": (
        "pids = [int(subprocess.run(['setsid', '-f', 'sh', '-c',"
        " 'echo $$; exec sleep 1000 >/dev/null 2>&1'], capture_output=True).stdout)]"
    ),
    "a copy": (
        "pids = [os.fork()]\nif not pids[0]:\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    while True: time.sleep(1)"
    ),
}
"""What a cell may leave behind: `pids` are its process ids."""
CAN_RESET = os.geteuid() == 0 and "DIAG_DESTROY=y" in (
    subprocess.run(["zcat", "/proc/config.gz"], capture_output=True, text=True, check=False).stdout
)
"""Linux ends other processes' TCP connections for root where it was built with that."""


class HostileWalk(Chaos):
    """Faults, and what programs do that mean no harm."""

    weights = Chaos.weights | {
        "leave_children": 12,
        "reset_connection": 6 if CAN_RESET else 0,
        "be_odd": 40,
        "interrupt_push": 6,
        "race_starts": 0.7,
    }

    def leave_children(self):
        """A rank is killed that has started something: nothing of that lives on."""
        victim, kind = self.pick(), self.choice.choice(list(CHILDREN))
        self.note(f"{kind} of rank {victim}")
        self.faults += 1
        result = self.cell(
            f"import os, signal, subprocess, time\n{CHILDREN[kind]}\npids", ranks=victim
        )
        assert result.ok, describe_ends(result)
        (pid,) = map(int, result[0].value_repr.strip("[]").split(","))
        child = psutil.Process(pid)
        ending = self.choice.choice(["lost", "healed"])
        if ending == "lost":
            self.strike(victim, "sigkill")
            self._await_loss(victim, "SIGKILL", GONE_WITHIN_S)
        else:
            self.in_time(self.cluster.heal, victim)
            self.ranks[victim] = Rank(self.cluster.topology().engines[victim].pid)
        wait_until(
            lambda: not is_alive(child), GONE_WITHIN_S, f"{kind} of a rank that is gone ends"
        )

    def reset_connection(self):
        """A TCP connection to the coordinator is reset: nobody is lost."""
        who = self.choice.choice(["agent", "rank"])
        self.note(f"of {who}")
        self.faults += 1
        process = (
            self.choice.choice(agents_of(self.cluster))
            if who == "agent"
            else psutil.Process(self.ranks[self.pick()].pid)
        )
        coordinator = psutil.Process(self.cluster._connection.coordinator_pid)
        theirs = {connection.laddr.port for connection in tcp_of(coordinator)}
        for connection in tcp_of(process):
            if connection.status == psutil.CONN_ESTABLISHED and connection.raddr.port in theirs:
                reset(connection)
        result = self.cell("print('after a reset'); int(comm.all_reduce(1))")
        assert {rank.status for rank in result} == {"ok"}, describe_ends(result)
        assert {rank.stdout for rank in result} == {"after a reset\n"}

    def be_odd(self):
        """A cell raises, shows or displays something that nobody was made for."""
        victim, deed = self.pick(), self.choice.choice(ODD_CELLS)
        self.note(f"{deed.name} on rank {victim}")
        (rank,) = self.cell(deed.code, ranks=victim)
        assert rank.status == deed.status, (rank.status, rank.error)
        assert deed.says in rank.stdout
        assert deed.value is None or rank.value_repr == deed.value
        assert deed.error in str(rank.error)

    def interrupt_push(self):
        """What blocks while it is unpacked is interrupted, and costs no state."""
        victim = self.pick()
        self.note(f"at rank {victim}")
        self.faults += 1
        folder = self.home.temp_dir.parent / f"push-{self.faults}"
        folder.mkdir()
        files = Files(folder)
        running = self.pool.submit(self.cluster.push, {"pushed": Slow(files.hold)}, ranks=victim)
        files.wait_until_here([victim])
        self.in_time(self.cluster.interrupt)
        error = running.exception(ANSWER_WITHIN_S)
        assert isinstance(error, TransferError), error
        assert f"rank {victim}" in str(error)
        assert "interrupted" in str(error)

    def race_starts(self):
        """Several start clusters at once without naming them: each gets one, none waits for others."""
        starts = [
            self.pool.submit(Cluster.start, "localhost:1", timeout_s=30) for _ in range(RACING)
        ]
        clusters = []
        try:
            clusters += [start.result(30) for start in starts]
            assert len({cluster.name for cluster in clusters}) == RACING
            assert all(cluster.run("rank").ok for cluster in clusters)
        finally:
            for cluster in clusters:
                cluster.stop()


def tcp_of(process):
    """TCP connections and listening sockets of a process."""
    return process.net_connections("tcp")


def reset(connection):
    """End a TCP connection of another process, as a firewall does that has forgotten it."""
    ends = ["sport", "=", f":{connection.laddr.port}", "dport", "=", f":{connection.raddr.port}"]
    subprocess.run(["ss", "-K", *ends], capture_output=True, check=True)
