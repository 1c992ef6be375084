"""The line magics: check hosts, start a cluster, look at it, move objects, stop it."""

import atexit
from argparse import Namespace
from contextlib import nullcontext
from time import monotonic
from typing import TYPE_CHECKING, Any

from jupyter_dist.errors import ClusterExists, RankRaised, UsageError
from jupyter_dist.magics import options as accepted
from jupyter_dist.magics.attach import take_up
from jupyter_dist.magics.checkpoints import resume_new, run_shown
from jupyter_dist.magics.command import (
    MagicGroup,
    command,
    find_display,
    is_notebook,
    say,
    show_markup,
    word_for,
)
from jupyter_dist.magics.pushed_objects import choose_objects
from jupyter_dist.magics.spmd import find_failure, number_of_cell
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.options.option import given_options
from jupyter_dist.options.start_options import start_arguments
from jupyter_dist.text.plurals import count_of

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster
    from jupyter_dist.views.cell.display_place import Display
    from jupyter_dist.views.stages.transfer_bar import TransferBar


def check_size(options: Namespace, running: "Cluster") -> None:
    """Raise UsageError when another number of ranks is asked for than a running cluster has."""
    if options.hosts is None and options.hostfile is None and options.spec is None:
        return
    from jupyter_dist.cluster.spec.specification import specify

    asked = specify(**start_arguments(options)).world_size
    if asked not in (0, running.world_size):
        raise UsageError(
            f"cluster {running.name} runs with {count_of(running.world_size, 'rank')}, and {asked} "
            "are asked for. Accepted: --reuse with that number or none, or --replace, which "
            "stops it first."
        )


class ClusterMagics(MagicGroup):
    """`%dist_start` to `%dist_stop`, for one shell."""

    @command(accepted.CHECK)
    def dist_check(self, options: Namespace) -> None:
        """Examine hosts without starting anything: what they have, and whom they reach.

        What keeps a cluster from working there is marked ✗, each with the next step.
        """
        from jupyter_dist.cluster.doctor.examination import examine
        from jupyter_dist.cluster.spec.specification import specify
        from jupyter_dist.views.tables.findings_view import FindingsView

        spec = specify(**start_arguments(options))
        view = FindingsView([host.name for host in spec.hosts], display=self._display)
        try:
            diagnosis = examine(spec)
        except BaseException as problem:
            view.fail(f"not examined: {type(problem).__name__}")
            raise
        view.finish(diagnosis)

    @command(accepted.START)
    def dist_start(self, options: Namespace) -> None:
        """Start a cluster; `%%spmd` cells then run on every one of its ranks.

        It lives on when the notebook's kernel ends: %dist_attach finds it again. With --resume it
        goes on from a checkpoint; should that fail, the cluster runs all the same. --replace and
        --reuse are for cells that are run again.
        """
        if self._current.is_of_job:
            self._take_that_of_job(options)
            return
        running = self._find_running(options)
        if running is not None and options.reuse:
            check_size(options, running)
            say(f"cluster {running.name} runs already: {name_ranks(range(running.world_size))}")
            take_up(running, self._shell, self._current, options.o)
            return
        if running is not None:
            running.stop()
            say(f"cluster {running.name} is stopped")
        cluster = self._start(options)
        if self._current.job is not None and options.keep_s is None:
            atexit.register(cluster.stop)  # the job is over when nothing of it is left
        take_up(cluster, self._shell, self._current, options.o)
        if options.resume is not None:
            resume_new(cluster, options.resume, self._shell)

    def _take_that_of_job(self, options: Namespace) -> None:
        cluster = self._current.get()
        ranks = name_ranks(range(cluster.world_size))
        say(f"cluster {cluster.name} is that of `jupyter dist run`: {ranks}")
        take_up(cluster, self._shell, self._current, options.o)
        if options.resume is not None:
            resume_new(cluster, options.resume, self._shell)

    def _find_running(self, options: Namespace) -> "Cluster | None":
        """Return the running cluster that is to be reused or replaced, if there is one.

        Raises ClusterExists for the one of this notebook where neither was asked for, and
        ClusterInUse where another notebook owns it.
        """
        from jupyter_dist.cluster.cluster import Cluster

        current = self._current.running
        is_again = options.reuse or options.replace
        if current is not None and options.name in (None, current.name):
            if not is_again and options.name is None:
                raise ClusterExists(current.name)  # a cell that is run again starts none
            return current if is_again else None
        if is_again and options.name in Cluster.running():
            return Cluster.attach(options.name)
        return None

    def _start(self, options: Namespace) -> "Cluster":
        from jupyter_dist.cluster.cluster import Cluster
        from jupyter_dist.views.stages.start_progress import StartProgressView, ready_text

        arguments = start_arguments(options)
        view = StartProgressView(display=self._display)
        started_s = monotonic()
        try:
            cluster = Cluster.start(**arguments, on_progress=view.on_progress)
        except UsageError:
            raise
        except BaseException as problem:
            view.fail(f"not started: {type(problem).__name__}")
            raise
        keeps_times = self._display is None or self._current.style.times
        took_s = monotonic() - started_s if keeps_times else None
        view.finish(
            ready_text(cluster.name, cluster.world_size, took_s, cluster.notes, view.passed_s)
        )
        return cluster

    @command(accepted.STATUS)
    def dist_status(self, options: Namespace) -> None:  # noqa: ARG002
        """Show every rank: its state, its process, its memory, its heartbeat."""
        say(word_for(self._shell, str(self._current.get().status())))

    @command(accepted.TOPOLOGY)
    def dist_topology(self, options: Namespace) -> None:  # noqa: ARG002
        """Show hosts and ranks as a picture that stays live."""
        cluster = self._current.get()
        if is_notebook(self._shell):
            from jupyter_dist.views.topology.widget import show_topology

            show_topology(cluster)
        else:
            from jupyter_dist.views.topology.snapshot import topology_text

            say(word_for(self._shell, topology_text(cluster.topology())))

    @command(accepted.INTERRUPT)
    def dist_interrupt(self, options: Namespace) -> None:
        """Interrupt the cell that runs, on every rank or on some, as Ctrl-C would."""
        cluster = self._current.get()
        ranks = cluster.interrupt(cluster.select(options.ranks, options.on))
        say(f"interrupted {name_ranks(ranks)}" if ranks else "nothing was running")

    @command(accepted.PUSH)
    def dist_push(self, options: Namespace) -> None:
        """Copy variables of the notebook to the ranks, under the same names."""
        cluster = self._current.get()
        objects = choose_objects(options.names, options.line, self._shell.user_ns)
        with self._bar() as bar:
            cluster.push(
                objects,
                options.ranks,
                on=options.on,
                timeout_s=options.timeout_s,
                on_stage=say,
                on_moved=bar.on_moved,
            )

    @command(accepted.PULL)
    def dist_pull(self, options: Namespace) -> Any:
        """Copy a variable of the ranks, or what an expression is there, as {rank: object}."""
        cluster = self._current.get()
        with self._bar() as bar:
            objects = cluster.pull(
                options.name,
                options.ranks,
                on=options.on,
                timeout_s=options.timeout_s,
                on_stage=say,
                on_moved=bar.on_moved,
            )
        if options.o is None:
            return objects
        self._shell.push({options.o: objects})
        return None

    @command(accepted.SYNC)
    def dist_sync(self, options: Namespace) -> None:
        """Copy files or folders of this machine to every host, where cells can import them.

        After `%dist_sync mypkg` all ranks can `import mypkg`; of `src/`, as with rsync, what is in
        it can be imported. What was removed here is removed there too; the copies end with the
        cluster. `__pycache__`, `.git`, `*.pyc`, `.ipynb_checkpoints`, `.venv` and `node_modules`
        are left out. Ranks may be busy meanwhile; only `--reload` waits until they are idle.
        """
        from jupyter_dist.cluster.code.sync import RELOAD_COMMAND

        cluster = self._current.get()
        with self._bar() as bar:
            result = cluster.sync(options.paths, force=options.force, on_moved=bar.on_moved)
        hint = "" if options.reload else result.hint()
        for line in filter(None, (str(result), *result.notes, hint)):
            say(line)
        if options.reload:
            run_shown(cluster, RELOAD_COMMAND, self._shell)

    @command(accepted.BENCH)
    def dist_bench(self, options: Namespace) -> None:
        """Measure the collectives on every rank as nccl-tests does, and check their results.

        Sizes, algbw and busbw mean what they mean there. Every element of every result is compared
        with what it must be, and busbw with what the links between the ranks promise.
        """
        cluster = self._current.get()
        from jupyter_dist.cluster.bench import bench_command, read_report
        from jupyter_dist.options.bench_options import BenchOptions, plan_bench
        from jupyter_dist.views.cell.cell_output import choose_view
        from jupyter_dist.views.tables.bench_view import BenchView

        plan = plan_bench(**given_options(options, BenchOptions))
        cell = choose_view(self._shell, world_size=cluster.world_size)
        view = BenchView(cell, display=self._display)
        try:
            result = cluster.run_command(
                bench_command(plan), label=number_of_cell(self._shell), watcher=view
            )
        except BaseException:
            view.fail(None)
            raise
        failure = find_failure(result)
        if failure is not None:
            view.fail(result, failure.rank if isinstance(failure, RankRaised) else None)
            raise failure
        report = read_report(result, plan, cluster.topology())
        view.finish(result, report)
        if options.o is not None:
            self._shell.push({options.o: report})

    @command(accepted.WHO)
    def dist_who(self, options: Namespace) -> None:
        """List the variables of all ranks: type, shape, dtype, memory, and what differs.

        A name that some ranks lack, and values that are not the same on all, are marked ▶. Ranks
        may be busy: from a second notebook, or `jupyter dist who`, also while a cell runs.
        """
        from jupyter_dist.views.tables.variables_table import names_html, names_text

        cluster = self._current.get()
        found = cluster.who(options.patterns, cluster.select(options.ranks, options.on))
        self._show(names_html(found), names_text(found))

    @command(accepted.STACKS)
    def dist_stacks(self, options: Namespace) -> None:
        """Show what every rank is doing, ranks with the same stack together.

        A rank whose interpreter does not answer is looked at from outside.
        """
        from jupyter_dist.views.tables.stacks_table import stacks_html, stacks_text

        cluster = self._current.get()
        ranks = cluster.select(options.ranks, options.on)
        found = cluster.stacks(ranks, native=options.native)
        self._show(stacks_html(found), stacks_text(found))

    @command(accepted.EXPLAIN)
    def dist_explain(self, options: Namespace) -> None:  # noqa: ARG002
        """Say who waits for whom in the running cell, how ranks were lost, and what can be done."""
        say(word_for(self._shell, self._current.get().explain()))

    @command(accepted.COLLECTIVES)
    def dist_collectives(self, options: Namespace) -> None:
        """Show the last collectives of every rank side by side, of stuck and lost ranks as well.

        The first place where ranks called different things, or some did not come, is marked ▶.
        """
        from jupyter_dist.views.tables.collectives_table import collectives_html, collectives_text

        table = self._current.get().collectives(options.last).table(options.last)
        self._show(collectives_html(table), collectives_text(table))

    @command(accepted.TIMELINE)
    def dist_timeline(self, options: Namespace) -> None:
        """Write the cells and collectives of all ranks as a trace, for https://ui.perfetto.dev.

        Each collective is divided into the wait for the last rank and the work after that. The
        recorders of ranks keep their last 256 cells and 2048 calls.
        """
        say(str(self._current.get().timeline(options.file, force=options.force)))

    @command(accepted.STOP)
    def dist_stop(self, options: Namespace) -> None:  # noqa: ARG002
        """End the cluster: every rank, every process, every file of it."""
        cluster = self._current.get()
        if self._current.is_of_job:
            say(f"cluster {cluster.name} goes on: `jupyter dist run` ends what it has started")
            return
        job = self._current.job
        with nullcontext() if job is None else job.stopping(cluster.name):
            cluster.stop()
        self._current.set(None)  # only now: who may not stop it goes on with it
        say(f"cluster {cluster.name} is stopped")

    def _show(self, markup: str, text: str) -> None:
        show_markup(self._shell, markup, text)

    def _bar(self) -> "TransferBar":
        from jupyter_dist.views.stages.transfer_bar import TransferBar

        return TransferBar(display=self._display)

    @property
    def _display(self) -> "Display | None":
        return find_display(self._shell)
