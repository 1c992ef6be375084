"""Measure a start over ssh against what it is made of, and against ipyparallel, in one run.

python benchmarks/start_over_ssh.py [--hosts 4] [--ranks 2] [--rounds 5] [--slow-s 5] [--rival]

The hosts are network namespaces of this machine with an sshd each (tests/hosts/lab), so all of
them share its cores; needs root. `python` is the floor: `ssh HOST python -c 'import IPython, zmq,
numpy'` on all hosts at once. `ours` is Cluster.start until every rank is ready. `one` and `many`
compare one slow host (its setup sleeps) with all of them. Rounds are interleaved; figures are
medians.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "hosts"))

from figures import Samples, medians_of, publish, read_options, take_turns  # noqa: E402
from lab import HostsLab  # noqa: E402  (the lab of the tests)
from machine import describe_machine  # noqa: E402

from jupyter_dist import Cluster  # noqa: E402
from jupyter_dist.model.spec.cluster_spec import HostSpec  # noqa: E402


def import_everywhere(lab: HostsLab) -> float:
    """Start a Python on every host at once; seconds until the last has imported."""
    start_s = time.perf_counter()
    command = f"{sys.executable} -c 'import IPython, zmq, numpy'"
    running = [subprocess.Popen([*lab.ssh, name, command]) for name in lab.names]
    assert all(process.wait(120) == 0 for process in running)
    return time.perf_counter() - start_s


def start_ours(lab: HostsLab, ranks: int, names: tuple[str, ...], setup: str = "") -> float:
    """Start a cluster on these hosts, and stop it; seconds until it was ready."""
    hosts = [
        HostSpec(name, ranks, launcher="ssh", ssh=lab.ssh, setup=(setup,) if setup else ())
        for name in names
    ]
    start_s = time.perf_counter()
    with Cluster.start(hosts, timeout_s=120) as cluster:
        ready_s = time.perf_counter() - start_s
        assert len(cluster.run("rank")) == ranks * len(names)
    return ready_s


def start_ipyparallel(lab: HostsLab, ranks: int, folder: str) -> float:
    """Start ipyparallel's engines on all hosts; seconds until all have registered."""
    import ipyparallel
    from traitlets.config import Config

    config = Config()
    launcher = config.SSHEngineSetLauncher
    launcher.engines = dict.fromkeys(lab.names, ranks)
    launcher.remote_python = sys.executable
    launcher.ssh_args = launcher.scp_args = ["-F", str(lab.ssh_config)]
    launcher.remote_profile_dir = f"{folder}/profile"
    os.environ["IPYTHONDIR"] = folder
    start_s = time.perf_counter()
    cluster = ipyparallel.Cluster(
        engines="ssh", controller_ip=lab.head_address, config=config, log_level=40
    )
    client = cluster.start_and_connect_sync(n=ranks * len(lab.names))
    client.wait_for_engines(ranks * len(lab.names), timeout=180)
    ready_s = time.perf_counter() - start_s
    client.close()
    cluster.stop_cluster_sync()
    return ready_s


def measure(options: argparse.Namespace) -> Samples:
    """Take every sample."""
    names = [f"node{number:02}" for number in range(1, options.hosts + 1)]
    with (
        tempfile.TemporaryDirectory() as folder,
        HostsLab(names, Path(folder)) as lab,
    ):
        slow = f"sleep {options.slow_s:g}"
        contenders = {
            "python": lambda: import_everywhere(lab),
            "ours": lambda: start_ours(lab, options.ranks, lab.names),
            "one": lambda: start_ours(lab, 1, lab.names[:1], slow),
            "many": lambda: start_ours(lab, 1, lab.names, slow),
        }
        samples = take_turns(contenders, options.rounds)
        if options.rival:
            samples["ipyparallel"] = [start_ipyparallel(lab, options.ranks, folder)]
    return samples


def main() -> None:
    options = read_options(__doc__, hosts=4, ranks=2, rounds=5, slow_s=5.0, rival=False)
    machine = describe_machine()
    samples = measure(options)
    medians = medians_of(samples)
    names = ("jupyter-dist", "ipyparallel", "grpcio", "pyzmq")
    publish(
        options,
        {name: {"median_s": median_s} for name, median_s in medians.items()},
        machine=machine | {"hosts": options.hosts, "ranks per host": options.ranks},
        versions={name: version(name) for name in names},
        slow_s=options.slow_s,
        samples_s=samples,
        median_s=medians,
    )
    print(f"ours / python {medians['ours'] / medians['python']:.2f}   (goal: at most 2)")
    print(f"many / one {medians['many'] / medians['one']:.2f}   (goal: at most 2 for 64 hosts)")
    if options.rival:
        print(f"ours / ipyparallel {medians['ours'] / medians['ipyparallel']:.2f}")


if __name__ == "__main__":
    main()
