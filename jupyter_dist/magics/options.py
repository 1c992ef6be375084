"""The options of every magic, as parsers: they read a line, explain themselves and complete."""

from collections.abc import Callable

from jupyter_dist.model.spec.error_policy import OnError
from jupyter_dist.options.bench_options import add_bench_options
from jupyter_dist.options.checkpoint_options import (
    add_heal_resume,
    add_list_options,
    add_restore_options,
    add_save_options,
    add_start_resume,
)
from jupyter_dist.options.command_options import (
    OptionParser,
    add_attach_options,
    add_break_options,
    add_collectives_options,
    add_debug_options,
    add_name,
    add_native_option,
    add_ranks,
    add_replaced_ranks,
    add_sync_options,
    add_timeline_options,
    add_timeout,
    read_duration_s,
    read_identifier,
)
from jupyter_dist.options.grant_options import add_grant_options
from jupyter_dist.options.output_options import add_output_options
from jupyter_dist.options.profile_options import DEFAULT_S, add_profile_options, read_profile_s
from jupyter_dist.options.start_options import (
    add_again_options,
    add_host_options,
    add_start_options,
    add_way_options,
)

PARSERS: list[OptionParser] = []
"""Of all magics."""


def _describe(example: str, *options: Callable[[OptionParser], None]) -> OptionParser:
    """Make the parser of the magic with which an example begins; these add its first options."""
    parser = OptionParser(prog=example.split(maxsplit=1)[0], example=example)
    for add_options in options:
        add_options(parser)
    PARSERS.append(parser)
    return parser


CHECK = _describe("%dist_check --hosts nodeA:8,nodeB:8", add_host_options)
START = _describe(
    "%dist_start -n 4 --name demo", add_start_options, add_again_options, add_start_resume
)
SPMD = _describe("%%spmd --ranks 0,2-3 --timeout 30s -o result", add_ranks)
STATUS = _describe("%dist_status")
TOPOLOGY = _describe("%dist_topology")
INTERRUPT = _describe("%dist_interrupt --ranks 1", add_ranks)
PUSH = _describe("%dist_push weights learning_rate=0.1 --ranks 0-1", add_ranks)
PULL = _describe("%dist_pull loss --ranks 0 -o losses", add_ranks)
SYNC = _describe("%dist_sync mypkg --reload", add_sync_options)
BENCH = _describe("%dist_bench --ops all_reduce --max 64M", add_bench_options)
COLLECTIVES = _describe("%dist_collectives --last 50", add_collectives_options)
TIMELINE = _describe("%dist_timeline trace.json", add_timeline_options)
WHO = _describe("%dist_who w* loss --ranks 0-1", add_ranks)
STACKS = _describe("%dist_stacks --ranks 2", add_native_option, add_ranks)
PROFILE = _describe("%dist_profile 5s --ranks 0-3", add_profile_options, add_ranks)
EXPLAIN = _describe("%dist_explain")
DEBUG = _describe("%dist_debug 2", add_debug_options)
HEAL = _describe("%dist_heal --ranks 2", add_heal_resume, add_replaced_ranks)
AXES = _describe("%dist_axes data=4,model=2")
SHRINK = _describe("%dist_shrink")
CHECKPOINT = _describe("%dist_checkpoint run1 weights step", add_save_options)
RESTORE = _describe("%dist_restore run1 --step 3", add_restore_options)
CHECKPOINTS = _describe("%dist_checkpoints --dir /scratch/me", add_list_options)
IPYPARALLEL = _describe("%dist_ipyparallel -o client", add_ranks)
ALLOW = _describe("%dist_allow agent --for 2h --may run,interrupt,heal", add_grant_options)
STOP = _describe("%dist_stop")
ATTACH = _describe("%dist_attach demo --watch", add_name, add_attach_options, add_way_options)
OUTPUT = _describe("%dist_output 3")
AUTO = _describe("%dist_auto on")
LOCAL = _describe("%%local")

AXES.add_argument(
    "sizes", nargs="?", metavar="NAME=SIZE,…", help="names and sizes; -1 for one that follows"
)
_axes = AXES.add_mutually_exclusive_group()
_axes.add_argument(
    "--from",
    dest="mesh",
    type=read_identifier,
    metavar="VAR",
    help="take those of a mesh of JAX or torch, a variable of the ranks",
)
_axes.add_argument("--clear", action="store_true", help="drop the axes that there are")

for parser, what in ((SPMD, "the cell"), (PUSH, "ranks"), (PULL, "ranks")):
    add_timeout(parser, what)
for parser, metavar, what in (
    (START, "NAME", "the Cluster"),
    (ATTACH, "NAME", "the Cluster"),
    (SPMD, "NAME", "the SpmdResult"),
    (BENCH, "NAME", "the report"),
    (PROFILE, "NAME", "the Profile"),
    (IPYPARALLEL, "NAME", "the ipyparallel.Client"),
    (PULL, "VAR", "the {rank: object}"),
):
    parser.add_argument("-o", type=read_identifier, metavar=metavar, help=f"store {what} here")

SPMD.add_argument(
    "--setup", action="store_true", help="remember the cell: a replaced rank runs it first"
)
SPMD.add_argument("--check", action="store_true", help="compare each collective before it begins")
SPMD.add_argument(
    "--on-error",
    choices=[str(policy) for policy in OnError],
    help="when a rank raises, the others leave collectives (default), are interrupted (default "
    "under `jupyter dist run`), or go on",
)
SPMD.add_argument(
    "--show", metavar="RANKS", help="show the outputs of these ranks only; all run the cell"
)
SPMD.add_argument(
    "--background",
    action="store_true",
    help="give the prompt back; the value, or -o, is a handle with wait(), result and cancel()",
)
SPMD.add_argument(
    "--one-answer",
    action="store_true",
    help="what you answer to input() is for all ranks that ask the same",
)
add_break_options(SPMD)
SPMD.add_argument(
    "--profile",
    nargs="?",
    choices=("sampling", "memory"),
    const="sampling",
    help="show below what ranks did with their time, or memory",
)
SPMD.add_argument(
    "--native", action="store_true", help="with --profile: see what C and C++ do, too"
)
SPMD.add_argument(
    "--no-slowest",
    dest="slowest",
    action="store_false",
    help="do not tell which rank is slowest when the cell runs for minutes",
)
SPMD.add_argument("--quiet", action="store_true", help="show nothing but errors")
add_output_options(SPMD)
OUTPUT.add_argument("label", nargs="?", metavar="N", help="which cell, as 3 or In[3]")
add_output_options(OUTPUT)
_when = OUTPUT.add_mutually_exclusive_group()
_when.add_argument(
    "--final",
    dest="is_final",
    action="store_const",
    const=True,
    help="show every cell from now on once, when it has ended",
)
_when.add_argument(
    "--live",
    dest="is_final",
    action="store_const",
    const=False,
    help="show every cell from now on while it runs, too",
)
OUTPUT.add_argument("--ranks", metavar="RANKS", help="the outputs of these ranks, as 0,2-3")
OUTPUT.add_argument("--list", action="store_true", help="name the cells that are kept")
AUTO.add_argument(
    "mode",
    nargs="?",
    choices=("on", "off"),
    help="whether every cell runs on every rank; without it that is told",
)

PUSH.add_argument(
    "names",
    nargs="+",
    metavar="NAME",
    help="variables of the notebook, or NAME=VALUE with what Python makes of VALUE here",
)
PULL.add_argument(
    "name", metavar="NAME", help="a variable of the ranks, or an expression, as w[:10]"
)
WHO.add_argument("patterns", nargs="*", metavar="PATTERN", help="names to list, as loss or w*")

PROFILE.add_argument(
    "seconds",
    nargs="?",
    type=read_profile_s,
    default=DEFAULT_S,
    metavar="DURATION",
    help=f"how long, as 5, 5s or 2m (default: {DEFAULT_S:g} s)",
)
IPYPARALLEL.add_argument(
    "--timeout",
    dest="timeout_s",
    type=read_duration_s,
    default=30.0,
    metavar="S",
    help="for the controller to start and all ranks to join, as 30, 30s or 5m (default: 30s)",
)
IPYPARALLEL.add_argument(
    "--stop", action="store_true", help="end the controller; ranks go on with all they have"
)
ATTACH.add_argument("--no-follow", action="store_true", help="do not show the cell that is running")
