"""The registry of commands: what this rank does when the cluster asks for one by its name."""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple

import msgspec

from jupyter_dist.checkpoint.commands import LOOK, RESTORE, SAVE, WAIT
from jupyter_dist.checkpoint.report import RankRestored, RankSaved
from jupyter_dist.checkpoint.table import RankFound
from jupyter_dist.engine.checkpoints.background_work import CheckpointWork
from jupyter_dist.engine.checkpoints.checkpointer import Checkpoint
from jupyter_dist.engine.execution.namespace import Namespace
from jupyter_dist.engine.leaving.preemption_handler import PreemptionHandler
from jupyter_dist.errors import CheckpointError, DistError
from jupyter_dist.model.bench.bench_plan import BenchPlan
from jupyter_dist.model.bench.measurements import RankBench
from jupyter_dist.options.checkpoint_request import (
    LookRequest,
    RestoreRequest,
    SaveRequest,
    WaitRequest,
)
from jupyter_dist.protocol.commands import (
    BENCH,
    MESH,
    PREEMPTION,
    PROGRAM,
    RELOAD,
    CommandKind,
    ProgramRequest,
    RankMesh,
    Report,
    Request,
)
from jupyter_dist.protocol.messages import Command


class _Entry(NamedTuple, Generic[Request, Report]):
    kind: CommandKind[Request, Report]
    carry_out: Callable[[Request], Report]


class Commands:
    """Carries out commands on the main thread; what one needs is imported with the first of it."""

    def __init__(
        self,
        names: Namespace,
        work: CheckpointWork,
        checkpoint: Checkpoint,
        preemption: PreemptionHandler,
        prepare_program: Callable[[str], object],
    ) -> None:
        """`prepare_program` is called with the source of a program before that runs."""
        self._names, self._work, self._checkpoint = names, work, checkpoint
        self._prepare_program = prepare_program
        entries: tuple[_Entry[Any, Any], ...] = (
            _Entry(BENCH, self._bench),
            _Entry(MESH, self._read_mesh),
            _Entry(PREEMPTION, preemption.handle),
            _Entry(PROGRAM, self._run_program),
            _Entry(RELOAD, self._reload),
            _Entry(SAVE, self._save),
            _Entry(RESTORE, self._restore),
            _Entry(LOOK, self._look),
            _Entry(WAIT, self._wait),
        )
        self._entries = {entry.kind.name: entry for entry in entries}

    def run(self, command: Command) -> bytes:
        """Carry out a command, and return its report as MessagePack.

        Raise what carrying it out raises; an error that is meant for people shows as one line, as
        the person has typed no code.
        """
        kind, carry_out = self._entries[command.name]
        self._work.tell_news()
        try:
            return kind.write_report(carry_out(kind.read_request(command)))
        except DistError as error:
            line = f"{type(error).__name__}: {error}"
            vars(error)["_render_traceback_"] = lambda: [line]
            raise

    def _bench(self, plan: BenchPlan) -> RankBench:
        from jupyter_dist.engine.benchmark import measure

        return measure(self._names.communicator, plan, self._names.shell.display_pub.publish)

    def _run_program(self, program: ProgramRequest) -> str:
        from jupyter_dist.engine.execution.program import run_program

        return run_program(self._names, program, self._prepare_program)

    def _read_mesh(self, name: str) -> RankMesh:
        from jupyter_dist.engine.observation.meshes import read_mesh

        names = self._names
        return read_mesh(name, names.shell.user_ns, len(names.all_ranks))

    def _reload(self, _request: None) -> None:
        from jupyter_dist.engine.code.reloading import reload_changed

        reload_changed()

    def _save(self, request: SaveRequest) -> RankSaved:
        """Save variables. Raise CheckpointError where none is named or marked."""
        names = list(request.names)
        if not names and not request.is_everything:
            names = list(self._checkpoint.marked)
            if not names:
                raise CheckpointError(
                    "no variable is named, and none is marked: nothing was saved. Name some "
                    "(%dist_checkpoint NAME weights step), mark them in a cell "
                    "(checkpoint.mark('weights', 'step')), or give --all."
                )
        report = self._checkpoint.save_variables(
            request.directory,
            names=names or None,
            keep_last=request.keep_last,
            wait=not request.is_background,
            cache=request.cache or None,
        )
        return self._show(msgspec.convert({"directory": request.directory, **report}, RankSaved))

    def _restore(self, request: RestoreRequest) -> RankRestored:
        report = self._checkpoint.restore_variables(
            request.directory,
            names=list(request.names) or None,
            step=request.step,
            objects=request.with_objects,
            cache=request.cache or None,
        )
        return self._show(msgspec.convert(report, RankRestored))

    def _look(self, request: LookRequest) -> RankFound:
        """Return which checkpoints this rank sees in a directory, and where it has saved last."""
        from jupyter_dist.checkpoint.storage.listing import list_checkpoints

        directory = request.directory
        seen, problems = list_checkpoints(directory) if directory else ((), ())
        last = self._checkpoint.last_variables
        return RankFound(directory=directory, last=last, seen=seen, problems=problems)

    def _wait(self, _request: WaitRequest) -> None:
        self._checkpoint.wait()

    def _show(self, report: Report) -> Report:
        self._names.shell.display_pub.publish({"text/plain": str(report)})
        return report
