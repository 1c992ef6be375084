"""The real Slurm on the hosts of a lab: slurmctld on this machine, slurmd and munged on each host.

with SlurmLab(["nodeA", "nodeB"], directory) as slurm:
    subprocess.run(["srun", "--nodes", "2", "hostname"], env=os.environ | slurm.env)
    slurm.kill_slurmd("nodeA")
"""

import functools
import os
import shutil
import subprocess
from pathlib import Path

from tests.hosts import lab
from tests.hosts.lab.system import PATH, name_missing, program
from tests.patience import wait_until_gone
from tests.processes.leftovers import name_of, wait_until

PROGRAMS = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    **dict.fromkeys(("sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo"), "slurm-client"),
    "munged": "munge",
}
CPUS = 8
"""Of each host, as far as Slurm is told."""
_CONF = """\
ClusterName=lab
SlurmctldHost=head({head})
AuthType=auth/munge
AuthInfo=socket={own}/munge.socket
SlurmUser=root
SlurmctldPort={port}
SlurmctldPidFile={own}/slurmctld.pid
SlurmctldLogFile={own}/slurmctld.log
StateSaveLocation={own}/state
SlurmdPidFile={own}/slurmd.pid
SlurmdLogFile={own}/slurmd.log
SlurmdSpoolDir={own}/spool
SlurmdParameters=config_overrides
SlurmdTimeout={slurmd_timeout_s}
KillWait=20
MessageTimeout=4
TCPTimeout=1
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=2,sched_min_interval=50000,batch_sched_delay=0
{nodes}
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=urgent Nodes=ALL PriorityTier=10 MaxTime=INFINITE State=UP
"""
_PORT = 6818
"""Where slurmd listens."""


@functools.cache
def why_not():
    """Say why Slurm cannot run on this machine; empty when it can."""
    return lab.why_not() or name_missing(PROGRAMS)


class SlurmLab:
    """Slurm on a lab of hosts, which is up inside `with`.

    `shared` is a directory that this machine and all hosts see at the same path and may write to.
    """

    def __init__(self, names, root_dir, slurmd_timeout_s=5):
        self.root = Path(root_dir)
        self.shared = self.root / "shared"
        self._conf_dir = self.root / "conf"
        self._own = self.root / "own"
        """At the same path on each machine, with other files on each."""
        self.env = {"SLURM_CONF": str(self._conf_dir / "slurm.conf")}
        self.hosts = lab.HostsLab(names, self.root / "hosts", [self.shared, self._conf_dir])
        self.names = self.hosts.names
        self._slurmd_timeout_s = slurmd_timeout_s
        self._servers: list[subprocess.Popen] = []

    def __enter__(self):
        for folder in (self.shared, self._conf_dir, self._own, self._own / "state"):
            folder.mkdir(parents=True)
        try:
            self.hosts.__enter__()
            self._write_conf()
            self._start_head()
            for name in self.names:
                self._start(name)
            self.wait_until_idle()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """End everything; harmless if it is gone."""
        self.hosts.close()
        for server in self._servers:
            server.terminate()
        for server in self._servers:
            try:
                server.wait(60)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
        self._servers.clear()
        shutil.rmtree(self.root, ignore_errors=True)

    # What jobs there are

    def ask(self, *words):
        """Run one of Slurm's programs on this machine; give its stdout."""
        done = subprocess.run(
            [program(words[0]), *words[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=os.environ | self.env,
        )
        assert done.returncode == 0, f"{' '.join(map(str, words))}: {done.stderr}"
        return done.stdout

    def sbatch(self, *words):
        """Submit a job; give its number."""
        return int(self.ask("sbatch", "--parsable", *words))

    def squeue(self, form="%i %T %r"):
        """The jobs that have not ended, each in this form."""
        return self.ask("squeue", "--noheader", "--format", form).splitlines()

    def scancel(self, job):
        """Cancel a job, as someone in another terminal does."""
        self.ask("scancel", str(job))

    def end_soon(self, job, seconds):
        """Let a job's time limit be near; Slurm looks every half minute which ones are over."""
        self.ask("scontrol", "update", f"jobid={job}", f"EndTime=now+{seconds}")

    def job(self, number):
        """What Slurm remembers of a job, its fields by name."""
        words = self.ask("scontrol", "--oneliner", "show", "job", str(number)).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def state_of(self, host):
        """What Slurm takes a host for: idle, alloc, mix, down and so on."""
        words = ("--noheader", "-p", "main", "--nodes", host, "--format", "%t")
        return self.ask("sinfo", *words).strip().rstrip("*")

    def only_job(self):
        """The number of the one job that there is."""
        (number,) = self.squeue("%i")
        return int(number)

    def assert_queue_is_empty(self, within_s=0.0):
        """Fail, naming the jobs, if one has not ended in time."""
        wait_until_gone(lambda: self.squeue("%i %j %T %r %N"), within_s, "left in squeue", 0.05)

    # What happens to hosts

    def leftovers(self, host):
        """What jobs have left on a host, in words."""
        return [
            what
            for what in self.hosts.leftovers(host)
            if not what.endswith(f"listens on port {_PORT}")
        ] + [
            f"{host}: process {process.pid}: slurmstepd"
            for process in self._processes(host, "slurmstepd")
        ]

    def assert_nothing_left(self, within_s=0.0):
        """Fail, naming what jobs have left on any host, if it is not gone in time."""
        wait_until_gone(
            lambda: [what for host in self.names for what in self.leftovers(host)], within_s
        )

    def kill_slurmd(self, host):
        """Kill Slurm's server on a host; the jobs there go on until Slurm misses it."""
        for process in self._processes(host, "slurmd"):
            process.kill()
            process.wait(5)

    def crash(self, host):
        """Cut a host's power; the next boot finds its folder of temporary files empty."""
        self.hosts.crash(host)
        self.hosts.remove_leftovers(host)

    def heal(self, host):
        """Undo what was done to a host; it takes jobs again."""
        self.hosts.heal(host)
        if not self._processes(host, "slurmd"):
            self._start(host)

    def remove_leftovers(self):
        """Cancel all jobs, end what they have left, and empty the shared directory."""
        for job in self.squeue("%i"):
            self.scancel(job)
        for host in self.names:
            if self.leftovers(host):
                self.hosts.remove_leftovers(host)
                self.heal(host)  # its servers have ended as well
        for path in self.shared.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def wait_until_idle(self, within_s=20.0):
        """Wait until every host takes jobs."""
        wait_until(
            lambda: (
                self.ask("sinfo", "--noheader", "--format", "%t %D").split()
                == ["idle", str(len(self.names))]
            ),
            within_s,
            "all hosts are idle for Slurm",
        )

    # How it is built

    def _write_conf(self):
        nodes = "\n".join(
            f"NodeName={name} NodeAddr={self.hosts.address(name)} CPUs={CPUS} State=UNKNOWN"
            for name in self.names
        )
        head = self.hosts.head_address
        # No other living lab has this network; below the ports that others are given by chance.
        _, high, low, _ = map(int, head.split("."))
        text = _CONF.format(
            head=head,
            port=20000 + high % 16 * 256 + low,
            own=self._own,
            nodes=nodes,
            slurmd_timeout_s=self._slurmd_timeout_s,
        )
        (self._conf_dir / "slurm.conf").write_text(text)
        key = self._conf_dir / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)

    def _munged(self):
        # It minds that others may not enter the folders above its socket; here nobody shall.
        return [
            *(program("munged"), "--foreground", "--force", "--num-threads", "2"),
            *("--key-file", str(self._conf_dir / "munge.key")),
            *("--socket", str(self._own / "munge.socket")),
            *("--pid-file", str(self._own / "munge.pid")),
            *("--seed-file", str(self._own / "munge.seed")),
        ]

    def _start_head(self):
        self._serve("munged", self._munged())
        wait_until((self._own / "munge.socket").exists, 10, "munged of this machine listens")
        name = 'hostname head && exec "$@"'  # Slurm looks whether it is on the right machine
        controller = [program("slurmctld"), "-D", "-f", self.env["SLURM_CONF"]]
        self._serve("slurmctld", [program("unshare"), "--uts", "sh", "-c", name, "sh", *controller])

    def _start(self, host):
        """Start munged and slurmd on a host that has just come up, or whose servers are gone."""
        remount = self.hosts.run(host, ["mount", "-o", "remount,bind,rw", self.shared])
        assert remount.returncode == 0, remount.stderr
        if not self._processes(host, "munged"):
            own = self.hosts.path(host, self._own)
            shutil.rmtree(own, ignore_errors=True)
            own.mkdir()
            self._serve(f"munged-{host}", self.hosts.command(host, self._munged()))
            wait_until((own / "munge.socket").exists, 10, f"munged of {host} listens")
        slurmd = [program("slurmd"), "-D", "-N", host, "-f", self.env["SLURM_CONF"]]
        self._serve(f"slurmd-{host}", self.hosts.command(host, slurmd))

    def _serve(self, name, words):
        """Start a server that ends with us."""
        with open(self.root / f"{name}.out", "ab") as log:
            self._servers.append(
                subprocess.Popen(
                    [program("setpriv"), "--pdeathsig", "KILL", "--", *words],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    env={"PATH": PATH},
                    start_new_session=True,
                )
            )

    def _processes(self, host, name):
        return [process for process in self.hosts.processes(host) if name_of(process) == name]
