"""The options of every magic, as parsers: they read a line, explain themselves and complete."""

from jupyter_dist.model.checkpoint_options import (
    add_heal_resume,
    add_list_options,
    add_restore_options,
    add_save_options,
    add_start_resume,
)
from jupyter_dist.model.command_options import (
    OptionParser,
    add_bench_options,
    add_collectives_options,
    add_native_option,
    add_sync_options,
    add_timeline_options,
    read_duration_s,
    read_identifier,
)
from jupyter_dist.model.error_policy import OnError
from jupyter_dist.model.start_options import (
    add_host_options,
    add_start_options,
)

CHECK = OptionParser(prog="%dist_check", example="%dist_check --hosts nodeA:8,nodeB:8")
START = OptionParser(prog="%dist_start", example="%dist_start -n 4 --name demo")
SPMD = OptionParser(prog="%%spmd", example="%%spmd --ranks 0,2-3 --timeout 30s -o result")
STATUS = OptionParser(prog="%dist_status", example="%dist_status")
TOPOLOGY = OptionParser(prog="%dist_topology", example="%dist_topology")
INTERRUPT = OptionParser(prog="%dist_interrupt", example="%dist_interrupt --ranks 1")
PUSH = OptionParser(prog="%dist_push", example="%dist_push weights learning_rate --ranks 0-1")
PULL = OptionParser(prog="%dist_pull", example="%dist_pull loss --ranks 0 -o losses")
SYNC = OptionParser(prog="%dist_sync", example="%dist_sync mypkg --reload")
BENCH = OptionParser(prog="%dist_bench", example="%dist_bench --ops all_reduce --max 64M")
COLLECTIVES = OptionParser(prog="%dist_collectives", example="%dist_collectives --last 50")
TIMELINE = OptionParser(prog="%dist_timeline", example="%dist_timeline trace.json")
WHO = OptionParser(prog="%dist_who", example="%dist_who w* loss --ranks 0-1")
STACKS = OptionParser(prog="%dist_stacks", example="%dist_stacks --ranks 2")
EXPLAIN = OptionParser(prog="%dist_explain", example="%dist_explain")
HEAL = OptionParser(prog="%dist_heal", example="%dist_heal --ranks 2")
SHRINK = OptionParser(prog="%dist_shrink", example="%dist_shrink")
CHECKPOINT = OptionParser(prog="%dist_checkpoint", example="%dist_checkpoint run1 weights step")
RESTORE = OptionParser(prog="%dist_restore", example="%dist_restore run1 --step 3")
CHECKPOINTS = OptionParser(prog="%dist_checkpoints", example="%dist_checkpoints --dir /scratch/me")
IPYPARALLEL = OptionParser(prog="%dist_ipyparallel", example="%dist_ipyparallel -o client")
STOP = OptionParser(prog="%dist_stop", example="%dist_stop")
ATTACH = OptionParser(prog="%dist_attach", example="%dist_attach demo --watch")
OUTPUT = OptionParser(prog="%dist_output", example="%dist_output 3")
AUTO = OptionParser(prog="%dist_auto", example="%dist_auto on")
LOCAL = OptionParser(prog="%%local", example="%%local")

PARSERS = (
    CHECK,
    START,
    SPMD,
    STATUS,
    TOPOLOGY,
    INTERRUPT,
    PUSH,
    PULL,
    SYNC,
    BENCH,
    COLLECTIVES,
    TIMELINE,
    WHO,
    STACKS,
    EXPLAIN,
    HEAL,
    SHRINK,
    CHECKPOINT,
    RESTORE,
    CHECKPOINTS,
    IPYPARALLEL,
    STOP,
    ATTACH,
    OUTPUT,
    AUTO,
    LOCAL,
)


def _fill() -> None:
    add_host_options(CHECK)
    add_start_options(START)
    add_start_resume(START)
    add_save_options(CHECKPOINT)
    add_restore_options(RESTORE)
    add_list_options(CHECKPOINTS)
    add_sync_options(SYNC)
    add_bench_options(BENCH)
    add_collectives_options(COLLECTIVES)
    add_timeline_options(TIMELINE)
    BENCH.add_argument("-o", type=read_identifier, metavar="NAME", help="store the report here")
    add_native_option(STACKS)
    for parser in (SPMD, INTERRUPT, PUSH, PULL, WHO, STACKS, IPYPARALLEL):
        parser.add_argument("--ranks", metavar="RANKS", help="only these ranks, as 0,2-3")
    for parser, what in ((SPMD, "the cell"), (PUSH, "ranks"), (PULL, "ranks")):
        parser.add_argument(
            "--timeout",
            dest="timeout_s",
            type=read_duration_s,
            metavar="S",
            help=f"interrupt {what} after this time, as 30, 30s or 5m",
        )
    SPMD.add_argument(
        "--setup", action="store_true", help="remember the cell: a replaced rank runs it first"
    )
    SPMD.add_argument(
        "--check", action="store_true", help="compare each collective before it begins"
    )
    SPMD.add_argument(
        "--on-error",
        choices=[str(policy) for policy in OnError],
        default="release",
        help="when a rank raises, the others leave collectives, are interrupted, or go on",
    )
    SPMD.add_argument("-o", type=read_identifier, metavar="NAME", help="store the SpmdResult here")
    SPMD.add_argument(
        "--show", metavar="RANKS", help="show the outputs of these ranks only; all run the cell"
    )
    SPMD.add_argument("--quiet", action="store_true", help="show nothing but errors")
    IPYPARALLEL.add_argument(
        "-o", type=read_identifier, metavar="NAME", help="store the ipyparallel.Client here"
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
    HEAL.add_argument(
        "--ranks", metavar="RANKS", help="these ranks, as 2 or 0,2-3, though they may live"
    )
    add_heal_resume(HEAL)
    PUSH.add_argument("names", nargs="+", metavar="NAME", help="variables of the notebook")
    PULL.add_argument("name", type=read_identifier, metavar="NAME", help="a variable of the ranks")
    PULL.add_argument(
        "-o", type=read_identifier, metavar="VAR", help="store the {rank: object} here"
    )
    WHO.add_argument("patterns", nargs="*", metavar="PATTERN", help="names to list, as loss or w*")
    ATTACH.add_argument("name", nargs="?", metavar="NAME", help="which one, when several run")
    how = ATTACH.add_mutually_exclusive_group()
    how.add_argument("--watch", action="store_true", help="look on beside who runs cells")
    how.add_argument(
        "--take-over", action="store_true", help="run cells instead of who does; it may look on"
    )
    ATTACH.add_argument(
        "--no-follow", action="store_true", help="do not show the cell that is running"
    )
    OUTPUT.add_argument("label", nargs="?", metavar="N", help="which cell, as 3 or In[3]")
    OUTPUT.add_argument("--ranks", metavar="RANKS", help="the outputs of these ranks, as 0,2-3")
    OUTPUT.add_argument("--list", action="store_true", help="name the cells that are kept")
    AUTO.add_argument("mode", choices=("on", "off"), help="whether every cell runs on every rank")


_fill()
