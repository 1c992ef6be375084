"""The line magics: check hosts, start a cluster, look at it, move objects, stop it."""

from argparse import Namespace
from collections.abc import Callable
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
    word_for,
)
from jupyter_dist.magics.spmd import find_failure, number_of_cell
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.options.option import given_options
from jupyter_dist.options.start_options import start_arguments

if TYPE_CHECKING:
    from jupyter_dist.views.cell.display_place import Display
    from jupyter_dist.views.stages.transfer_bar import TransferBar


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
        goes on from a checkpoint; should that fail, the cluster runs all the same.
        """
        from jupyter_dist.cluster.cluster import Cluster
        from jupyter_dist.views.stages.start_progress import StartProgressView, ready_text

        if options.name is None and self._current.running is not None:
            raise ClusterExists(self._current.running.name)  # a cell that is run again starts none
        view = StartProgressView(display=self._display)
        started_s = monotonic()
        try:
            cluster = Cluster.start(**start_arguments(options), on_progress=view.on_progress)
        except UsageError:
            raise
        except BaseException as problem:
            view.fail(f"not started: {type(problem).__name__}")
            raise
        ready_s = monotonic() - started_s
        name, ranks = cluster.name, cluster.world_size
        view.finish(ready_text(name, ranks, ready_s, cluster.notes, view.passed_s))
        take_up(cluster, self._shell, self._current)
        if options.resume is not None:
            resume_new(cluster, options.resume, self._shell)

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
        ranks = self._current.get().interrupt(options.ranks)
        say(f"interrupted {name_ranks(ranks)}" if ranks else "nothing was running")

    @command(accepted.PUSH)
    def dist_push(self, options: Namespace) -> None:
        """Copy variables of the notebook to the ranks, under the same names."""
        cluster = self._current.get()
        names = " ".join(options.names).replace(",", " ").split()
        unknown = [name for name in names if name not in self._shell.user_ns]
        if unknown:
            raise UsageError(
                f"the notebook has no variable named {', '.join(unknown)}; nothing was pushed. "
                "Define it outside %%spmd first."
            )
        objects = {name: self._shell.user_ns[name] for name in names}
        with self._bar() as bar:
            cluster.push(
                objects,
                options.ranks,
                timeout_s=options.timeout_s,
                on_stage=say,
                on_moved=bar.on_moved,
            )

    @command(accepted.PULL)
    def dist_pull(self, options: Namespace) -> Any:
        """Copy a variable of the ranks to the notebook, as {rank: object}."""
        cluster = self._current.get()
        with self._bar() as bar:
            objects = cluster.pull(
                options.name,
                options.ranks,
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

        found = self._current.get().who(options.patterns, options.ranks)
        self._show(names_html(found), names_text(found))

    @command(accepted.STACKS)
    def dist_stacks(self, options: Namespace) -> None:
        """Show what every rank is doing, ranks with the same stack together.

        A rank whose interpreter does not answer is looked at from outside.
        """
        from jupyter_dist.views.tables.stacks_table import stacks_html, stacks_text

        found = self._current.get().stacks(options.ranks, native=options.native)
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
        cluster.stop()
        self._current.set(None)  # only now: who may not stop it goes on with it
        say(f"cluster {cluster.name} is stopped")

    def _show(self, markup: str, text: str) -> None:
        """Display it in a notebook; write its text elsewhere."""
        if not is_notebook(self._shell):
            say(text.rstrip())
            return
        from IPython.display import display

        show: Callable[..., object] = display
        show({"text/html": markup, "text/plain": text}, raw=True)

    def _bar(self) -> "TransferBar":
        from jupyter_dist.views.stages.transfer_bar import TransferBar

        return TransferBar(display=self._display)

    @property
    def _display(self) -> "Display | None":
        return find_display(self._shell)
