"""What can be said of a cluster that is to be started: where, how, and for how long."""

import argparse
from typing import Any

from jupyter_dist.model.batch_options import add_batch_options, batch_arguments
from jupyter_dist.model.command_options import read_count, read_duration_s, read_variable
from jupyter_dist.model.on_loss import OnLoss
from jupyter_dist.model.preempt_options import add_preempt_options, preempt_arguments
from jupyter_dist.model.spec import COMMUNICATOR_KINDS, DEFAULT_RANKS, MOST_CPU_DEVICES


def add_start_options(parser: argparse.ArgumentParser) -> None:
    """Add everything that can be asked of a new cluster."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "-n", type=read_count, metavar="N", help=f"ranks on this machine (default: {DEFAULT_RANKS})"
    )
    _add_places(parser, which)
    add_batch_options(parser)
    _add_installing(parser)
    parser.add_argument("--name", metavar="NAME", help="how to find the cluster again")
    parser.add_argument(
        "--timeout",
        dest="timeout_s",
        type=read_duration_s,
        metavar="S",
        help="give up when it is not ready after this time, as 60 or 2m "
        "(default: 60 s; 10m when hosts join or wait in a queue)",
    )
    parser.add_argument(
        "--keep",
        dest="keep_s",
        type=read_duration_s,
        metavar="DURATION",
        help="how long it lives without a notebook, as 90s, 15m or 2h (default: 15m)",
    )
    parser.add_argument(
        "--env",
        type=read_variable,
        nargs="+",
        action="extend",
        metavar="K=V",
        help="environment variables of the ranks",
    )
    parser.add_argument("--cwd", metavar="DIR", help="working directory of the ranks")
    parser.add_argument(
        "--comm", choices=COMMUNICATOR_KINDS, help="what `comm` is in a cell (default: auto)"
    )
    _add_devices(parser)
    for flag, text in (
        ("--suspect-after", "mention a rank that is silent for so long (default: 3s)"),
        ("--lost-after", "give up a rank or host that is silent for so long (default: 10s)"),
        ("--sample-interval", "observe cores, memory, GPUs and networks so often (default: 1s)"),
    ):
        dest = f"{flag[2:].replace('-', '_')}_s"
        parser.add_argument(flag, dest=dest, type=read_duration_s, metavar="S", help=text)
    parser.add_argument(
        "--on-loss",
        choices=[str(policy) for policy in OnLoss],
        help="what to do by itself when a rank is lost: replace it (heal), end (stop), go on "
        "without (continue), or nothing (default: ask)",
    )
    add_preempt_options(parser)


def _add_devices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--oversubscribe",
        action="store_true",
        help="ranks may share a GPU where there are more of them than GPUs",
    )
    parser.add_argument(
        "--devices-per-engine",
        metavar="N|all",
        help="GPUs that each rank sees; all: one rank on each host, with all of them (default: 1)",
    )
    parser.add_argument(
        "--cpu-devices",
        type=_read_cpu_devices,
        metavar="N",
        help="devices that JAX makes of the cores of each rank (default: 1)",
    )
    when = parser.add_mutually_exclusive_group()
    when.add_argument(
        "--jax",
        action="store_const",
        const="start",
        help="ranks form JAX at the start, not with the first cell that imports it",
    )
    when.add_argument(
        "--no-jax",
        dest="jax",
        action="store_const",
        const="never",
        help="they form it only where a cell calls jax.distributed.initialize()",
    )


def _read_cpu_devices(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= MOST_CPU_DEVICES:
        problem = f"{text!r} is not a number of devices, 1-{MOST_CPU_DEVICES}"
        raise argparse.ArgumentTypeError(problem)
    return int(text)


def add_host_options(parser: argparse.ArgumentParser) -> None:
    """Add what says where ranks shall be, and how an agent gets there."""
    _add_places(parser, parser.add_mutually_exclusive_group())


def _add_places(parser: argparse.ArgumentParser, which: argparse._MutuallyExclusiveGroup) -> None:
    which.add_argument(
        "--hosts",
        metavar="HOST:N",
        help="where to start how many ranks, as a:8,user@b:8 or node[01-04]:8; without :N one for "
        "each GPU; join:N waits for N hosts that come by themselves",
    )
    which.add_argument(
        "--hostfile", metavar="FILE", help="a host file of Open MPI, MPICH, PBS or Slurm"
    )
    parser.add_argument("--spec", metavar="FILE", help="a specification of the cluster in TOML")
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="interpreter or environment on the hosts (default: as here, else python3)",
    )
    parser.add_argument(
        "--ssh", metavar="COMMAND", help="ssh and its options, as 'ssh -F FILE' (default: ssh)"
    )
    parser.add_argument(
        "--interface",
        metavar="NAME|CIDR",
        help="network on which hosts reach this machine, as eth0 or 10.1.0.0/16",
    )
    parser.add_argument(
        "--ports",
        metavar="FIRST-LAST",
        help="ports on which hosts reach this machine, as 47000-47009 (default: free ones)",
    )
    parser.add_argument(
        "--tunnel",
        action="store_true",
        help="hosts reach this machine through their ssh connections only",
    )


def _add_installing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--install",
        action="store_true",
        help="install this jupyter-dist on hosts that have none or another one",
    )
    parser.add_argument(
        "--wheelhouse",
        metavar="DIR",
        help="as --install, but from these wheels, for hosts without internet",
    )


def host_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Turn the options of `add_host_options` into arguments of `Cluster.start`: those given."""
    given = {
        "hosts": options.hosts,
        "hostfile": options.hostfile,
        "spec": options.spec,
        "python": options.python,
        "ssh": options.ssh,
        "interface": options.interface,
        "ports": options.ports,
        "tunnel": options.tunnel or None,
    }
    return {key: value for key, value in given.items() if value is not None}


def start_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Turn the options of a new cluster into the arguments of `Cluster.start`: those given."""
    given = {
        "hosts": f"localhost:{options.n}" if options.n else None,
        **batch_arguments(options),
        "install": options.install or None,
        "wheelhouse": options.wheelhouse,
        "name": options.name,
        "timeout_s": options.timeout_s,
        "keep_s": options.keep_s,
        "env": dict(options.env) if options.env else None,
        "cwd": options.cwd,
        "comm": options.comm,
        "oversubscribe": options.oversubscribe or None,
        "devices_per_engine": options.devices_per_engine,
        "cpu_devices": options.cpu_devices,
        "jax": options.jax,
        "on_loss": options.on_loss,
        "suspect_after_s": options.suspect_after_s,
        "lost_after_s": options.lost_after_s,
        "sample_interval_s": options.sample_interval_s,
        **preempt_arguments(options),
    }
    return host_arguments(options) | {
        key: value for key, value in given.items() if value is not None
    }
