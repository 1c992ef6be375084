"""The line magics: check hosts, start a cluster, look at it, move objects, stop it."""

from argparse import Namespace
from time import monotonic
from typing import TYPE_CHECKING, Any

from jupyter_dist.errors import RankRaised, UsageError
from jupyter_dist.magics import options as accepted
from jupyter_dist.magics.attaching import take_up
from jupyter_dist.magics.checkpoints import resume_new
from jupyter_dist.magics.command import CurrentCluster, Shell, command, find_display, say, word_for
from jupyter_dist.magics.spmd import find_failure, number_of_cell
from jupyter_dist.model.command_options import (
    bench_arguments,
)
from jupyter_dist.model.rank import name_ranks
from jupyter_dist.model.start_options import (
    host_arguments,
    start_arguments,
)

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster
    from jupyter_dist.views.place import Display
    from jupyter_dist.views.transfer_bar import TransferBar


class ClusterMagics:
    """`%dist_start` to `%dist_stop`, for one shell."""

    def __init__(self, shell: Shell, current: CurrentCluster) -> None:
        self._shell = shell
        self._current = current

    @command(accepted.CHECK)
    def dist_check(self, options: Namespace) -> None:
        """Examine hosts without starting anything: what they have, and whom they reach.

        What keeps a cluster from working there is marked ✗, each with the next step.
        """
        from jupyter_dist.cluster.doctor import examine
        from jupyter_dist.cluster.specification import specify
        from jupyter_dist.views.findings_view import FindingsView

        arguments = host_arguments(options)
        spec = specify(spec_file=arguments.pop("spec", None), **arguments)
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
        from jupyter_dist.views.start_progress import StartProgressView, ready_text

        if options.name is None:
            self._current.check_none_runs()
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
        if self._is_notebook:
            from jupyter_dist.views.topology_widget import show_topology

            show_topology(cluster)
        else:
            from jupyter_dist.views.topology_snapshot import topology_text

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
        cluster = self._current.get()
        with self._bar() as bar:
            result = cluster.sync(options.paths, force=options.force, on_moved=bar.on_moved)
        hint = "" if options.reload else result.hint()
        for line in filter(None, (str(result), *result.notes, hint)):
            say(line)
        if options.reload:
            self._reload(cluster)

    @command(accepted.BENCH)
    def dist_bench(self, options: Namespace) -> None:
        """Measure the collectives on every rank as nccl-tests does, and check their results.

        Sizes, algbw and busbw mean what they mean there. Every element of every result is compared
        with what it must be, and busbw with what the links between the ranks promise.
        """
        from jupyter_dist.cluster.bench import bench_cell, read_report
        from jupyter_dist.model.bench_plan import plan_bench
        from jupyter_dist.views.bench_view import BenchView
        from jupyter_dist.views.cell_output import choose_view

        cluster = self._current.get()
        plan = plan_bench(**bench_arguments(options))
        cell = choose_view(self._shell, world_size=cluster.world_size)
        view = BenchView(cell, display=self._display)
        try:
            result = cluster.run(bench_cell(plan), label=number_of_cell(self._shell), watcher=view)
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

    @command(accepted.COLLECTIVES)
    def dist_collectives(self, options: Namespace) -> None:
        """Show the last collectives of every rank side by side, of stuck and lost ranks as well.

        The first place where ranks called different things, or some did not come, is marked ▶.
        """
        from jupyter_dist.views.collectives_table import collectives_bundle

        bundle = collectives_bundle(
            self._current.get().collectives(options.last).table(options.last)
        )
        if self._display is not None:
            self._display(bundle, raw=True, display_id=True)
        else:
            say(bundle["text/plain"].rstrip())

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
        self._current.forget()  # only now: who may not stop it goes on with it
        say(f"cluster {cluster.name} is stopped")

    def _reload(self, cluster: "Cluster") -> None:
        from jupyter_dist.cluster.sync import RELOAD_CELL
        from jupyter_dist.views.cell_output import choose_view

        view = choose_view(self._shell, world_size=cluster.world_size)
        try:
            result = cluster.run(RELOAD_CELL, label=number_of_cell(self._shell), watcher=view)
        except BaseException:
            view.finish(None)
            raise
        failure = find_failure(result)
        view.finish(result, failure.rank if isinstance(failure, RankRaised) else None)
        if failure is not None:
            raise failure

    def _bar(self) -> "TransferBar":
        from jupyter_dist.views.transfer_bar import TransferBar

        return TransferBar(display=self._display)

    @property
    def _display(self) -> "Display | None":
        return find_display(self._shell)

    @property
    def _is_notebook(self) -> bool:
        return getattr(self._shell, "kernel", None) is not None
