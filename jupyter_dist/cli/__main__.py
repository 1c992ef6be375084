"""`jupyter dist check|start|spec|list|run|sync|bench|stop`; the other files have the others.

Exit status: 0, 1 when something did not end well, 2 when the command cannot be meant.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic

from jupyter_dist.cli.checkpoints import add_checkpoint_commands, resume_new
from jupyter_dist.cli.command import add_name, write
from jupyter_dist.cli.looking import add_looking_commands
from jupyter_dist.cli.mending import add_mending_commands
from jupyter_dist.errors import DistError, UsageError
from jupyter_dist.model.checkpoint_options import add_start_resume
from jupyter_dist.model.command_options import (
    OptionParser,
    add_bench_options,
    add_sync_options,
    bench_arguments,
    read_count,
    read_duration_s,
)
from jupyter_dist.model.rank import parse_ranks
from jupyter_dist.model.start_options import (
    add_host_options,
    add_start_options,
    host_arguments,
    start_arguments,
)

_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    try:
        options, unknown = build_parser().parse_known_args(argv)
        if unknown:
            options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        status: int = options.call(options)
    except UsageError as error:
        return _fail(str(error), 2)
    except DistError as error:
        return _fail(str(error), 1)
    except KeyboardInterrupt as error:
        return _fail(str(error) or "interrupted", _INTERRUPTED)
    return status


def build_parser() -> OptionParser:
    """Describe every command."""
    parser = OptionParser(
        prog="jupyter dist",
        example="jupyter dist start -n 4",
        add_help=True,
        description="Start, see, use and stop clusters.",
    )
    commands = parser.add_subparsers(dest="command", required=True, parser_class=OptionParser)

    def add(call: Callable[[argparse.Namespace], int], text: str, example: str) -> OptionParser:
        name = example.split(maxsplit=1)[0]
        one = commands.add_parser(
            name, example=f"jupyter dist {example}", description=text, help=text, add_help=True
        )
        one.set_defaults(call=call, parser=one)
        return one

    add_host_options(add(check, "Examine hosts; start nothing.", "check --hosts a:8,b:8"))
    starting = add(start, "Start a cluster; it lives on.", "start -n 4 --name demo")
    add_start_options(starting)
    add_start_resume(starting)
    add_start_options(
        add(show_spec, "Write what a start would use, as TOML.", "spec --hosts a:8,b:8")
    )
    add(show_running, "Name the clusters that are running.", "list")
    _add_run_options(add(run_file, "Run a file on every rank.", "run train.py --ranks 0,2-3"))
    _add_sync_options(add(sync, "Copy code to every host.", "sync mypkg --reload"))
    add_looking_commands(add)
    add_mending_commands(add)
    add_checkpoint_commands(add)
    _add_bench_options(add(bench, "Measure the collectives of a cluster.", "bench demo --max 1M"))
    _add_agent_options(
        add(join_by_file, "Give this machine to a cluster that waits.", "agent --join FILE")
    )
    stopping = add(stop, "End a cluster: its processes and its files.", "stop demo")
    which = stopping.add_mutually_exclusive_group()
    add_name(which)
    which.add_argument("--all", action="store_true", help="every cluster that is running")
    return parser


def _add_agent_options(parser: OptionParser) -> None:
    parser.add_argument(
        "--join",
        metavar="FILE",
        required=True,
        help="the file that `--hosts join:N` has written; - reads standard input",
    )
    parser.add_argument("--name", metavar="HOST", help="what to call this host in the cluster")
    parser.add_argument(
        "--slots", type=read_count, metavar="N", help="ranks to take (default: one for each GPU)"
    )


def _add_run_options(parser: OptionParser) -> None:
    parser.add_argument("file", metavar="FILE", help="what to run; - reads standard input")
    parser.add_argument("--name", metavar="NAME", help="which cluster, when several run")
    parser.add_argument("--ranks", metavar="RANKS", help="only these ranks, as 0,2-3")
    parser.add_argument(
        "--timeout",
        dest="timeout_s",
        type=read_duration_s,
        metavar="S",
        help="interrupt it after this time, as 30, 30s or 5m",
    )


def _add_sync_options(parser: OptionParser) -> None:
    add_sync_options(parser)
    parser.add_argument("--name", metavar="NAME", help="which cluster, when several run")


def _add_bench_options(parser: OptionParser) -> None:
    add_name(parser)
    add_bench_options(parser)


def check(options: argparse.Namespace) -> int:
    """Write what was found on the hosts; status 1 when it would keep a cluster from working."""
    from jupyter_dist.cluster.doctor import examine
    from jupyter_dist.cluster.specification import specify
    from jupyter_dist.views.findings_view import FindingsView

    arguments = host_arguments(options)
    spec = specify(spec_file=arguments.pop("spec", None), **arguments)
    view = FindingsView([host.name for host in spec.hosts])
    try:
        diagnosis = examine(spec)
    except BaseException:
        view.fail("not examined")
        raise
    view.finish(diagnosis)
    return 0 if diagnosis.is_good else 1


def start(options: argparse.Namespace) -> int:
    """Start a cluster and say how to use it."""
    from jupyter_dist.cluster.cluster import Cluster
    from jupyter_dist.views.start_progress import StartProgressView, ready_text
    from jupyter_dist.views.terminal import Terminal

    view = StartProgressView(display=Terminal(sys.stderr.write, is_tty=sys.stderr.isatty()))
    started_s = monotonic()
    try:
        cluster = Cluster.start(**start_arguments(options), on_progress=view.on_progress)
    except UsageError:
        raise
    except BaseException:
        view.fail("not started")
        raise
    ready_s = monotonic() - started_s
    name, ranks = cluster.name, cluster.world_size
    view.finish(ready_text(name, ranks, ready_s, cluster.notes, view.passed_s))
    write(
        f"{name}\n"
        f"  in a notebook:  %load_ext jupyter_dist, then %dist_attach {name}\n"
        f"  from here:      jupyter dist run FILE --name {name}\n"
        f"  to end it:      jupyter dist stop {name}\n"
    )
    if options.resume is not None:
        resume_new(cluster, options.resume)
    return 0


def show_spec(options: argparse.Namespace) -> int:
    """Write the specification that a start with these options would use; nothing is started."""
    from jupyter_dist.cluster.specification import specify
    from jupyter_dist.model.spec_file import write_spec

    arguments = start_arguments(options)
    write(write_spec(specify(spec_file=arguments.pop("spec", None), **arguments)))
    return 0


def show_running(_options: argparse.Namespace) -> int:
    """Write the name of each running cluster on a line."""
    from jupyter_dist.cluster.cluster import Cluster

    write("".join(f"{name}\n" for name in Cluster.running()))
    return 0


def run_file(options: argparse.Namespace) -> int:
    """Run a file as one SPMD cell, and show what the ranks say while they say it."""
    from jupyter_dist.cluster.cluster import Cluster
    from jupyter_dist.views.cell_output import CellOutputView

    code = _read_code(options.file)
    cluster = Cluster.visit(options.name)
    world = range(cluster.world_size)
    ranks = world if options.ranks is None else parse_ranks(options.ranks, len(world))
    view = CellOutputView(world_size=len(ranks))
    try:
        result = cluster.run(
            code, None if ranks is world else ranks, options.timeout_s, watcher=view
        )
    except SyntaxError as error:
        return _fail(f"{options.file}, line {error.lineno}: {type(error).__name__}: {error.msg}", 1)
    except BaseException:
        view.finish(None)
        raise
    view.finish(result)
    result.raise_first()
    return 0


def sync(options: argparse.Namespace) -> int:
    """Copy code to every host of a cluster, and have ranks load it anew if that is asked for."""
    from jupyter_dist.cluster.cluster import Cluster
    from jupyter_dist.cluster.sync import RELOAD_CELL
    from jupyter_dist.views.cell_output import CellOutputView
    from jupyter_dist.views.terminal import Terminal
    from jupyter_dist.views.transfer_bar import TransferBar

    cluster = Cluster.visit(options.name)
    terminal = Terminal(sys.stderr.write, is_tty=sys.stderr.isatty())
    with TransferBar(display=terminal) as bar:
        copied = cluster.sync(options.paths, force=options.force, on_moved=bar.on_moved)
    hint = "" if options.reload else copied.hint("jupyter dist sync")
    write("".join(f"{line}\n" for line in (str(copied), *copied.notes, hint) if line))
    if not options.reload:
        return 0
    view = CellOutputView(world_size=cluster.world_size)
    try:
        result = cluster.run(RELOAD_CELL, watcher=view)
    except BaseException:
        view.finish(None)
        raise
    view.finish(result)
    result.raise_first()
    return 0


def bench(options: argparse.Namespace) -> int:
    """Measure the collectives of a cluster; status 1 when one gave wrong results."""
    from jupyter_dist.cluster.bench import bench_cell, read_report
    from jupyter_dist.cluster.cluster import Cluster
    from jupyter_dist.model.bench_plan import plan_bench
    from jupyter_dist.model.bench_verdict import has_wrong_results
    from jupyter_dist.views.bench_view import BenchView
    from jupyter_dist.views.cell_output import CellOutputView

    plan = plan_bench(**bench_arguments(options))
    cluster = Cluster.visit(options.name)
    view = BenchView(CellOutputView(world_size=cluster.world_size))
    try:
        result = cluster.run(bench_cell(plan), watcher=view)
    except BaseException:
        view.fail(None)
        raise
    if not result.ok:
        view.fail(result)
        result.raise_first()
    report = read_report(result, plan, cluster.topology())
    view.finish(result, report)
    return 1 if has_wrong_results(report) else 0


def join_by_file(options: argparse.Namespace) -> int:
    """Become an agent of the cluster whose join file this is, until the cluster ends."""
    words = ["--join", options.join, "--name", options.name or ""]
    if options.slots:
        words += ["--slots", str(options.slots)]
    # The agent takes over this process, so that what started it can signal it and wait for it.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "jupyter_dist.agent", *words])


def stop(options: argparse.Namespace) -> int:
    """End one cluster, or all of them."""
    from jupyter_dist.cluster.cluster import Cluster

    names = Cluster.running() if options.all else [options.name]
    for name in names:
        cluster = Cluster.visit(name)
        cluster.stop()
        write(f"stopped {cluster.name}\n")
    return 0


def _read_code(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not text in UTF-8"
        raise UsageError(f"{path} cannot be read: {reason}.") from None


def _fail(problem: str, status: int) -> int:
    """Tell it on stderr: mistakes on one line, failures with what programs have said below."""
    text = problem.removeprefix("jupyter dist").lstrip(": ")
    if status == 2:
        text = " ".join(text.split())
    sys.stderr.write(f"jupyter dist: {text}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
