"""What can be said of a cluster that is to be started: where, how, and for how long.

Each option is written here once. `%dist_start`, `%dist_check`, `jupyter dist start`, the keyword
arguments of `Cluster.start` and its documentation all come from these dictionaries.
"""

import argparse
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, TypedDict

from jupyter_dist.model.spec.batch import BATCH_SYSTEMS
from jupyter_dist.model.spec.cluster_spec import (
    COMMUNICATOR_KINDS,
    DEFAULT_RANKS,
    MOST_CPU_DEVICES,
    OLD_NAME_OF_RING,
    START_METHODS,
    ClusterSpec,
)
from jupyter_dist.model.spec.on_loss import OnLoss
from jupyter_dist.options.command_options import number_reader, read_count, read_span_s
from jupyter_dist.options.option import Option, add_options, given_options

StrPath = str | os.PathLike[str]
START_LAUNCHERS = ("auto", "local", "ssh", *BATCH_SYSTEMS)
"""Who may start the agents of a whole cluster."""


_read_cpu_devices = number_reader("a number of devices", most=MOST_CPU_DEVICES)
_read_number = number_reader("a number")


class SpecOptions(TypedDict, total=False):
    """What names the hosts from a file; None is as good as absent, here and below."""

    hostfile: StrPath | None
    spec: Annotated[
        StrPath | ClusterSpec | None,
        Option("a specification of the cluster in TOML", metavar="FILE"),
    ]


Python = Annotated[
    str | None,
    Option(
        "interpreter or environment on the hosts (default: as here, else python3)",
        metavar="PATH",
    ),
]
Ssh = Annotated[
    str | Sequence[str] | None,
    Option("ssh and its options, as 'ssh -F FILE' (default: ssh)", metavar="COMMAND"),
]


class ReachOptions(TypedDict, total=False):
    """How hosts are reached, and how they reach this machine."""

    python: Python
    ssh: Ssh
    interface: Annotated[
        str | None,
        Option(
            "network on which hosts reach this machine, as eth0 or 10.1.0.0/16", metavar="NAME|CIDR"
        ),
    ]
    ports: Annotated[
        str | None,
        Option(
            "ports on which hosts reach this machine, as 47000-47009 (default: free ones)",
            metavar="FIRST-LAST",
        ),
    ]
    tunnel: Annotated[
        bool | None, Option("hosts reach this machine through their ssh connections only")
    ]


class PlaceOptions(TypedDict, total=False):
    """Where the coordinator is."""

    coordinator: Annotated[
        str | None,
        Option(
            "machine on which the coordinator runs, which hosts connect to, reached from here by "
            "one ssh connection that may break; job: the first node of a batch job (default: here)",
            metavar="here|HOST|job",
        ),
    ]


class WayOptions(PlaceOptions, total=False):
    """How a cluster is found that runs on another machine."""

    python: Python
    ssh: Ssh


class JobOptions(TypedDict, total=False):
    """Who starts the agents, and what is asked of the batch system that does."""

    launcher: Annotated[
        str | None,
        Option(
            "who starts the agents: a batch system in a job, an orchestrator on its nodes, or ssh; "
            "auto: the allocation that we are in, if there is one",
            choices=START_LAUNCHERS,
        ),
    ]
    nodes: Annotated[
        int | None,
        Option(
            "nodes of the job, each with one agent (in an allocation default: all)",
            type=_read_number,
            metavar="N",
        ),
    ]
    slots: Annotated[
        int | None,
        Option("ranks on each node (default: one for each GPU)", type=_read_number, metavar="N"),
    ]
    time_limit_s: Annotated[
        float | None,
        Option(
            "after which the scheduler ends the job, as 2h (default: that of the queue)",
            metavar="DURATION",
        ),
    ]
    launcher_args: Annotated[
        Sequence[str] | None,
        Option("one argument for it as it stands, repeatable", "--launcher-arg", metavar="ARG"),
    ]
    template: Annotated[
        StrPath | None, Option("a job script of your own, with our fields in it", metavar="FILE")
    ]
    scheduler: Annotated[
        str | None,
        Option(
            "address of Ray or of Dask's scheduler, or context of kubectl (default: theirs)",
            metavar="ADDRESS",
        ),
    ]
    queue: Annotated[
        str | None,
        Option("partition or queue of the job (default: the scheduler's)", metavar="NAME"),
    ]
    account: Annotated[str | None, Option("whom the scheduler charges", metavar="NAME")]
    job_name: Annotated[
        str | None, Option("name of the job (default: jupyter-dist-CLUSTER)", metavar="NAME")
    ]
    job_dir: Annotated[
        StrPath | None, Option("a directory that all nodes see (default: Jupyter's)", metavar="DIR")
    ]


class ClusterOptions(TypedDict, total=False):
    """What a cluster is, wherever its hosts are."""

    install: Annotated[
        bool | None, Option("install this jupyter-dist on hosts that have none or another one")
    ]
    wheelhouse: Annotated[
        StrPath | None,
        Option("as --install, but from these wheels, for hosts without internet", metavar="DIR"),
    ]
    name: Annotated[str | None, Option("how to find the cluster again", metavar="NAME")]
    timeout_s: Annotated[
        float | None,
        Option(
            "give up when it is not ready after this time, as 60 or 2m "
            "(default: 60 s; 10m when hosts join or wait in a queue)"
        ),
    ]
    keep_s: Annotated[
        float | None,
        Option(
            "how long it lives without a notebook, as 90s, 15m or 2h; 0: it ends with its "
            "notebook (default: 15m; 0 in scripts and where no one can answer, as under papermill)",
            type=read_span_s,
            metavar="DURATION",
        ),
    ]
    env: Annotated[Mapping[str, str] | None, Option("environment variables of the ranks")]
    cwd: Annotated[StrPath | None, Option("working directory of the ranks", metavar="DIR")]
    comm: Annotated[
        str | None,
        Option(
            f"what `comm` is in a cell (default: auto; {OLD_NAME_OF_RING} is an old name of ring)",
            choices=COMMUNICATOR_KINDS,
        ),
    ]
    oversubscribe: Annotated[
        bool | None, Option("ranks may share a GPU where there are more of them than GPUs")
    ]
    devices_per_engine: Annotated[
        int | str | None,
        Option(
            "GPUs that each rank sees; all: one rank on each host, with all of them (default: 1)",
            metavar="N|all",
        ),
    ]
    cpu_devices: Annotated[
        int | None,
        Option(
            "devices that JAX makes of the cores of each rank (default: 1)",
            type=_read_cpu_devices,
            metavar="N",
        ),
    ]
    jax: Annotated[
        str | None,
        Option(
            "ranks form JAX at the start, not with the first cell that imports it",
            action="store_const",
            const="start",
        ),
        Option(
            "they form it only where a cell calls jax.distributed.initialize()",
            "--no-jax",
            action="store_const",
            const="never",
        ),
    ]
    suspect_after_s: Annotated[
        float | None, Option("mention a rank after this silence (default: 3s)")
    ]
    lost_after_s: Annotated[
        float | None, Option("give up a rank or host after this silence (default: 10s)")
    ]
    sample_interval_s: Annotated[
        float | None, Option("interval of cores, memory, GPUs and networks (default: 1s)")
    ]
    on_loss: Annotated[
        str | None,
        Option(
            "what to do when a rank is lost, without being asked: replace it (heal), end (stop), "
            "go on without (continue), or nothing (default: ask)",
            choices=[str(policy) for policy in OnLoss],
        ),
    ]
    save_on_preempt: Annotated[
        StrPath | None,
        Option(
            "save the variables named by checkpoint.mark() there before a host is taken away",
            metavar="DIR",
        ),
    ]
    preempt_command: Annotated[
        str | None,
        Option(
            "asked on each host every few seconds; that it succeeds means: this host will be "
            "taken away, and its first line says why",
            metavar="COMMAND",
        ),
    ]
    start_method: Annotated[
        str | None,
        Option(
            "how ranks are started on their hosts: forked from a process that has imported "
            "everything, or as fresh interpreters (spawn) (default: fork on Linux, else spawn)",
            choices=START_METHODS,
        ),
    ]
    one_machine: bool | None


class StartOptions(ReachOptions, ClusterOptions, total=False):
    """What a start can be asked for besides its hosts and who starts their agents."""


class AllOptions(SpecOptions, StartOptions, PlaceOptions, JobOptions, total=False):
    """Everything that a start can be asked for besides its hosts."""


def add_start_options(parser: argparse.ArgumentParser, *, without: Collection[str] = ()) -> None:
    """Add everything that can be asked of a new cluster, or all but these fields."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "-n",
        dest="hosts",
        type=lambda text: f"localhost:{read_count(text)}",
        metavar="N",
        help=f"ranks on this machine (default: {DEFAULT_RANKS})",
    )
    _add_places(parser, which)
    add_options(parser, PlaceOptions)
    add_options(parser, JobOptions)
    add_options(parser, ClusterOptions, without=without)


def add_way_options(parser: argparse.ArgumentParser) -> None:
    """Add on which machine a running cluster is looked for, and how ssh gets there."""
    add_options(parser, WayOptions)


def add_host_options(parser: argparse.ArgumentParser) -> None:
    """Add what says where ranks shall be, and how an agent gets there."""
    _add_places(parser, parser.add_mutually_exclusive_group())


def _add_places(parser: argparse.ArgumentParser, which: argparse._MutuallyExclusiveGroup) -> None:
    which.add_argument(
        "--hosts",
        metavar="HOST:N",
        help="hosts and ranks per host, as a:8,user@b:8 or node[01-04]:8 (default: one rank per "
        "GPU); join:N waits for N agents to connect on their own",
    )
    which.add_argument(
        "--hostfile", metavar="FILE", help="a host file of Open MPI, MPICH, PBS or Slurm"
    )
    add_options(parser, SpecOptions)
    add_options(parser, ReachOptions)


def add_again_options(parser: argparse.ArgumentParser) -> None:
    """Add what becomes of a running cluster of the same name."""
    again = parser.add_mutually_exclusive_group()
    again.add_argument(
        "--replace", action="store_true", help="stop the running cluster of this name first"
    )
    again.add_argument(
        "--reuse", action="store_true", help="attach to the running cluster of this name, if any"
    )


def start_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `Cluster.start` that a line of these options holds."""
    hosts = {"hosts": options.hosts} if options.hosts is not None else {}
    return hosts | given_options(options, AllOptions)
