"""`jupyter dist check|start|spec|list|sync|bench|agent|stop`; the other files have the others.

Exit status: 0, 1 when something did not end well, 2 when the command cannot be meant.
"""

import argparse
import os
import sys
from collections.abc import Sequence

import msgspec

from jupyter_dist.cli import (
    assistants,
    attach,
    checkpoints,
    completion,
    debugging,
    inspection,
    outputs,
    recovery,
)
from jupyter_dist.cli.answers import add_json, answer, place_for, write_object
from jupyter_dist.cli.command import (
    Command,
    add_name_option,
    start_shown,
    visit,
    write,
)
from jupyter_dist.cli.demo import command as demo
from jupyter_dist.cli.export import command as export
from jupyter_dist.cli.failures import end_badly
from jupyter_dist.cli.jobs import run
from jupyter_dist.options.bench_options import BenchOptions, add_bench_options
from jupyter_dist.options.checkpoint_options import add_start_resume
from jupyter_dist.options.command_options import (
    OptionParser,
    add_name,
    add_sync_options,
    read_count,
)
from jupyter_dist.options.option import given_options
from jupyter_dist.options.start_options import add_host_options, add_start_options, start_arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    words = sys.argv[1:] if argv is None else list(argv)
    parser, options = build_parser(), argparse.Namespace()
    try:
        options, unknown = parser.parse_known_args(words, options)
        if unknown:
            options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        status: int = options.call(options)
    except (Exception, KeyboardInterrupt) as problem:  # noqa: BLE001  (defects are raised again)
        return end_badly(problem, parser, options, words)
    return status


def build_parser() -> OptionParser:
    """Describe every command."""
    parser = OptionParser(
        prog="jupyter dist",
        example="jupyter dist start -n 4",
        add_help=True,
        description="Start, see, use and stop clusters.",
        epilog="Exit status: 0, 1 when something did not end well, 2 when the command cannot be "
        "meant; of `run` see docs/how_to/programs.md. "
        "Shell completion: jupyter dist completion bash.",
    )
    commands = parser.add_subparsers(dest="command", required=True, parser_class=OptionParser)
    parser.set_defaults(commands=commands.choices)
    for call, example, *options in COMMANDS:
        name, text = example.split(maxsplit=1)[0], call.__doc__
        one = commands.add_parser(
            name,
            example=f"jupyter dist {example}",
            description=text,
            epilog=f"Example: jupyter dist {example}",
            help=text,
            add_help=True,
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


def _add_list_options(parser: OptionParser) -> None:
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--names", action="store_true", help="their names only, one in a line")
    how.add_argument("--json", action="store_true", help="a list of objects in JSON")


def _add_stop_options(parser: OptionParser) -> None:
    which = parser.add_mutually_exclusive_group()
    add_name(which)
    which.add_argument("--all", action="store_true", help="every cluster that is running")
    add_json(parser)


def check(options: argparse.Namespace) -> int:
    """Examine hosts; start nothing."""
    from jupyter_dist.cluster.doctor.examination import examine
    from jupyter_dist.cluster.spec.specification import specify
    from jupyter_dist.views.tables.findings_view import FindingsView

    spec = specify(**start_arguments(options))
    view = FindingsView([host.name for host in spec.hosts], display=place_for(options))
    try:
        diagnosis = examine(spec)
    except BaseException:
        view.fail("not examined")
        raise
    view.finish(diagnosis)
    if options.json:
        write_object(diagnosis)
    return 0 if diagnosis.is_good else 1


def start(options: argparse.Namespace) -> int:
    """Start a cluster; it lives on."""
    cluster = start_shown(start_arguments(options))
    name = cluster.name
    text = (
        f"{name}\n"
        f"  in a notebook:  %load_ext jupyter_dist, then %dist_attach {name}\n"
        f"  from here:      jupyter dist run --name {name} FILE\n"
        f"  to end it:      jupyter dist stop {name}\n"
    )
    if not options.json:
        write(text)
    try:
        if options.resume is not None:
            options.left_running = name  # should that fail
            checkpoints.resume_new(cluster, options.resume, place_for(options))
        if options.json:
            write_object({"cluster": name, "ranks": cluster.world_size, "notes": cluster.notes})
    finally:
        cluster.detach()  # it would end with this process
    return 0


def show_spec(options: argparse.Namespace) -> int:
    """Write what a start would use, as TOML."""
    from jupyter_dist.cluster.spec.spec_file import write_spec
    from jupyter_dist.cluster.spec.specification import specify

    write(write_spec(specify(**start_arguments(options))))
    return 0


def show_running(options: argparse.Namespace) -> int:
    """Show the clusters that are running: ranks, hosts, owner, age."""
    if options.names:
        from jupyter_dist.cluster.cluster import Cluster

        write("".join(f"{name}\n" for name in Cluster.running()))
        return 0
    from jupyter_dist.cluster.running import list_clusters, write_clusters

    clusters = list_clusters()
    return answer(options, clusters, lambda: write_clusters(clusters))


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
    lines = [line for line in (str(copied), *copied.notes, hint) if line]
    if not options.json:
        write("".join(f"{line}\n" for line in lines))
    if options.reload:
        checkpoints.run_shown(cluster, RELOAD_COMMAND, place_for(options))
    if options.json:
        fields = msgspec.structs.asdict(copied)
        del fields["reload"]  # where that fails, there is no answer
        write_object(fields)
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
    place = place_for(options)
    cell = CellOutputView(world_size=cluster.world_size, display=place)
    view = BenchView(cell, display=place)
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
    if options.json:
        write_object(report)
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

    stopped = []
    for name in Cluster.running() if options.all else [options.name]:
        cluster = Cluster.visit(name)
        cluster.stop()
        stopped.append(cluster.name)
        if not options.json:
            write(f"stopped {cluster.name}\n")
    if options.json:
        write_object({"stopped": stopped})
    return 0


COMMANDS: tuple[Command, ...] = (
    *demo.COMMANDS,
    (check, "check --hosts a:8,b:8", add_host_options, add_json),
    (start, "start -n 4 --name demo", add_start_options, add_start_resume, add_json),
    (show_spec, "spec --hosts a:8,b:8", add_start_options),
    (show_running, "list", _add_list_options),
    *run.COMMANDS,
    *export.COMMANDS,
    *attach.COMMANDS,
    (sync, "sync mypkg --reload", add_sync_options, add_name_option, add_json),
    *inspection.COMMANDS,
    *debugging.COMMANDS,
    *outputs.COMMANDS,
    *recovery.COMMANDS,
    *checkpoints.COMMANDS,
    *assistants.COMMANDS,
    (bench, "bench demo --max 1M", add_name, add_bench_options, add_json),
    (join_by_file, "agent --join FILE", _add_agent_options),
    (stop, "stop demo", _add_stop_options),
    *completion.COMMANDS,
)
"""In the order of the help."""

if __name__ == "__main__":
    sys.exit(main())
