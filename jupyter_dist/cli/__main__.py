"""`jupyter dist check|start|spec|list|run|sync|bench|stop`; the other files have the others.

Exit status: 0, 1 when something did not end well, 2 when the command cannot be meant.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

from jupyter_dist.cli import checkpoints, inspection, recovery
from jupyter_dist.cli.command import Command, add_name_option, visit, write
from jupyter_dist.errors import DistError, UsageError
from jupyter_dist.model.hosts.rank import parse_ranks
from jupyter_dist.options.bench_options import BenchOptions, add_bench_options
from jupyter_dist.options.checkpoint_options import add_start_resume
from jupyter_dist.options.command_options import (
    OptionParser,
    add_name,
    add_ranks,
    add_sync_options,
    add_timeout,
    read_count,
)
from jupyter_dist.options.option import given_options
from jupyter_dist.options.start_options import add_host_options, add_start_options, start_arguments

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

    for call, example, *options in COMMANDS:
        name, text = example.split(maxsplit=1)[0], call.__doc__
        one = commands.add_parser(
            name, example=f"jupyter dist {example}", description=text, help=text, add_help=True
        )
        one.set_defaults(call=call, parser=one)
        for add_its_options in options:
            add_its_options(one)
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
    add_name_option(parser)
    add_ranks(parser)
    add_timeout(parser, "it")


def _add_stop_options(parser: OptionParser) -> None:
    which = parser.add_mutually_exclusive_group()
    add_name(which)
    which.add_argument("--all", action="store_true", help="every cluster that is running")


def check(options: argparse.Namespace) -> int:
    """Examine hosts; start nothing."""
    from jupyter_dist.cluster.doctor.examination import examine
    from jupyter_dist.cluster.spec.specification import specify
    from jupyter_dist.views.tables.findings_view import FindingsView

    spec = specify(**start_arguments(options))
    view = FindingsView([host.name for host in spec.hosts])
    try:
        diagnosis = examine(spec)
    except BaseException:
        view.fail("not examined")
        raise
    view.finish(diagnosis)
    return 0 if diagnosis.is_good else 1


def start(options: argparse.Namespace) -> int:
    """Start a cluster; it lives on."""
    from jupyter_dist.cluster.cluster import Cluster
    from jupyter_dist.views.cell.terminal import Terminal
    from jupyter_dist.views.stages.start_progress import StartProgressView, ready_text

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
        checkpoints.resume_new(cluster, options.resume)
    return 0


def show_spec(options: argparse.Namespace) -> int:
    """Write what a start would use, as TOML."""
    from jupyter_dist.cluster.spec.spec_file import write_spec
    from jupyter_dist.cluster.spec.specification import specify

    write(write_spec(specify(**start_arguments(options))))
    return 0


def show_running(_options: argparse.Namespace) -> int:
    """Name the clusters that are running."""
    from jupyter_dist.cluster.cluster import Cluster

    write("".join(f"{name}\n" for name in Cluster.running()))
    return 0


def run_file(options: argparse.Namespace) -> int:
    """Run a file on every rank."""
    from jupyter_dist.views.cell.cell_output import CellOutputView

    code = _read_code(options.file)
    cluster = visit(options)
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
    """Copy code to every host."""
    from jupyter_dist.cluster.code.sync import RELOAD_COMMAND
    from jupyter_dist.views.cell.terminal import Terminal
    from jupyter_dist.views.stages.transfer_bar import TransferBar

    cluster = visit(options)
    terminal = Terminal(sys.stderr.write, is_tty=sys.stderr.isatty())
    with TransferBar(display=terminal) as bar:
        copied = cluster.sync(options.paths, force=options.force, on_moved=bar.on_moved)
    hint = "" if options.reload else copied.hint("jupyter dist sync")
    write("".join(f"{line}\n" for line in (str(copied), *copied.notes, hint) if line))
    if options.reload:
        checkpoints.run_shown(cluster, RELOAD_COMMAND)
    return 0


def bench(options: argparse.Namespace) -> int:
    """Measure the collectives of a cluster."""
    from jupyter_dist.cluster.bench import bench_command, read_report
    from jupyter_dist.options.bench_options import plan_bench
    from jupyter_dist.views.cell.cell_output import CellOutputView
    from jupyter_dist.views.tables.bench_verdict import has_wrong_results
    from jupyter_dist.views.tables.bench_view import BenchView

    plan = plan_bench(**given_options(options, BenchOptions))
    cluster = visit(options)
    view = BenchView(CellOutputView(world_size=cluster.world_size))
    try:
        result = cluster.run_command(bench_command(plan), watcher=view)
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
    """Give this machine to a cluster that waits."""
    words = ["--join", options.join, "--name", options.name or ""]
    if options.slots:
        words += ["--slots", str(options.slots)]
    # The agent takes over this process, so that what started it can signal it and wait for it.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "jupyter_dist.agent", *words])


def stop(options: argparse.Namespace) -> int:
    """End a cluster: its processes and its files."""
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


COMMANDS: tuple[Command, ...] = (
    (check, "check --hosts a:8,b:8", add_host_options),
    (start, "start -n 4 --name demo", add_start_options, add_start_resume),
    (show_spec, "spec --hosts a:8,b:8", add_start_options),
    (show_running, "list"),
    (run_file, "run train.py --ranks 0,2-3", _add_run_options),
    (sync, "sync mypkg --reload", add_sync_options, add_name_option),
    *inspection.COMMANDS,
    *recovery.COMMANDS,
    *checkpoints.COMMANDS,
    (bench, "bench demo --max 1M", add_name, add_bench_options),
    (join_by_file, "agent --join FILE", _add_agent_options),
    (stop, "stop demo", _add_stop_options),
)
"""In the order of the help."""

if __name__ == "__main__":
    sys.exit(main())
