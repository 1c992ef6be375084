"""One rank's whole life: join, serve, leave."""

import atexit
import os
import sys
from typing import NoReturn, assert_never

import msgspec

from jupyter_dist.collective.recording.recorder import CollectiveRecorder
from jupyter_dist.collective.ring.addresses import address_of, bind_listener
from jupyter_dist.control.context import new_context
from jupyter_dist.control.memory_file import can_open
from jupyter_dist.engine.channel.channel import AboutDebugger, AboutNotices, Channel, Delivery
from jupyter_dist.engine.channel.failed_orders import answer_failure
from jupyter_dist.engine.channel.link import Link
from jupyter_dist.engine.channel.waiting import Answer
from jupyter_dist.engine.checkpoints.background_work import CheckpointWork
from jupyter_dist.engine.checkpoints.checkpointer import Checkpoint, RankDuties
from jupyter_dist.engine.checkpoints.rank_group import Seat
from jupyter_dist.engine.code.code_imports import present_imports
from jupyter_dist.engine.collectives.background_collectives import BackgroundCollectives
from jupyter_dist.engine.collectives.communicators import make_communicator
from jupyter_dist.engine.collectives.control_collectives import ControlCollectives
from jupyter_dist.engine.collectives.frameworks import Frameworks, make_frameworks
from jupyter_dist.engine.collectives.rank_context import EngineRankContext
from jupyter_dist.engine.commands import Commands
from jupyter_dist.engine.debugging.rank_debugging import RankDebugging
from jupyter_dist.engine.execution.executor import Executor
from jupyter_dist.engine.execution.namespace import Namespace
from jupyter_dist.engine.execution.object_transfer import ObjectTransfer
from jupyter_dist.engine.execution.rank_input import RankInput
from jupyter_dist.engine.ipyparallel_tasks import IpyparallelTasks
from jupyter_dist.engine.launch_config import prepare_process
from jupyter_dist.engine.leaving.exit_reason import end_normally, end_with_own_error
from jupyter_dist.engine.leaving.preemption_handler import PreemptionHandler
from jupyter_dist.engine.leaving.sigterm import SigtermHandler
from jupyter_dist.engine.observation.observer import Observer
from jupyter_dist.engine.output.outputs import STREAMS, Outputs
from jupyter_dist.engine.output.rich_colours import watch_rich
from jupyter_dist.engine.output.tqdm_bars import watch_tqdm
from jupyter_dist.engine.shell.rank_shell import RankShell, make_shell
from jupyter_dist.engine.widgets.events import WidgetEvents
from jupyter_dist.engine.widgets.output_areas import OutputAreas
from jupyter_dist.engine.widgets.rank_comms import RankComms
from jupyter_dist.errors import CommunicatorError
from jupyter_dist.frameworks.import_hooks import ImportHooks
from jupyter_dist.launch.processes.open_files import are_crowded
from jupyter_dist.launch.processes.process_life import die_with_parent, end_at_eof
from jupyter_dist.model.transfer.pieces import cut_with_offsets
from jupyter_dist.protocol.births import EngineConfig, record_path, stream_path
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import (
    AbortCommunicator,
    CellOutput,
    CommReceived,
    FetchedPiece,
    FetchObject,
    HeedNotices,
    Hello,
    InputAnswered,
    JoinController,
    Leave,
    LeaveController,
    Message,
    NotReady,
    ObjectFetched,
    ObjectsStored,
    Question,
    Ready,
    Regroup,
    RunCell,
    StoreObjects,
    TakeAxes,
    Welcome,
)


def _take_streams(config: EngineConfig) -> Outputs:
    """Return what collects all that this process says from now on."""
    paths = {name: stream_path(config.run_dir, config.engine, name) for name in STREAMS}
    outputs = Outputs(paths)
    outputs.install()
    return outputs


class Engine:
    """The main thread of a rank."""

    def __init__(self, config: EngineConfig, shell: RankShell) -> None:
        self._config, self._rank = config, config.info.rank
        """It may become another one with a new generation; the name of the engine does not."""
        self._channel = Channel(config, self)
        post = self._channel.post
        self._input = self._make_input()
        self._link = Link(self._channel, self, config)
        self._outputs = _take_streams(config)
        self._told_offsets = self._outputs.offsets
        self._comms = RankComms(lambda: self._rank, post, self._outputs.add)
        hooks = self._watch_libraries(shell)
        shell.tell_where(self._comms.show, config.memory_dir, config.info.local_rank == 0)
        if (imports := present_imports()) is not None:
            shell.events.register("post_run_cell", imports.forget_missing)
        self._recorder = CollectiveRecorder(record_path(config.memory_dir, config.engine))
        self._recorder.rank = self._rank
        self._namespace = Namespace(shell, config.info)
        self._debugging = RankDebugging(lambda: self._rank, post, self._input, shell)
        held = self._debugging.install(hooks)
        self._collectives = ControlCollectives(self._rank, config.info.world_size, post, held)
        self._standing = BackgroundCollectives(post, held)
        self._checkpoints = CheckpointWork(
            self._namespace, self._collectives, self._standing, self._outputs.bars
        )
        self._termination = SigtermHandler()
        self._preemption = PreemptionHandler(lambda: self._rank, post, self._termination)
        self._namespace.checkpoint = checkpoint = self._make_checkpoint()
        self._frameworks = self._make_frameworks(shell, hooks)
        self._executor = self._make_executor(shell, checkpoint)
        self._objects = ObjectTransfer(self._executor, self._namespace)
        both = post, self._channel.hand_over
        self._tasks = IpyparallelTasks(self._executor, self._outputs, *both)
        self._widgets = WidgetEvents(self._comms, self._executor, *both)
        self._recorder.name_cell = shell.name_cell
        self._observer = Observer(shell, lambda: self._rank, post)
        self._listener = bind_listener(config.bind_host)

    def _make_executor(self, shell: RankShell, checkpoint: Checkpoint) -> Executor:
        return Executor(
            self._rank,
            shell,
            self._outputs,
            self._namespace,
            self._collectives,
            self._frameworks,
            self._recorder,
            self._make_commands(checkpoint).run,
            lambda: self._channel.is_cell_waiting,
            self._link.builtins,
        )

    def _make_commands(self, checkpoint: Checkpoint) -> Commands:
        return Commands(
            self._namespace,
            self._checkpoints,
            checkpoint,
            self._preemption,
            self._frameworks.prepare_cell,
        )

    def _make_input(self) -> RankInput:
        """Make what asks a person; everything that a rank says before stands above it."""

        def take_all() -> Message | None:
            self._outputs.flush()
            return self.take_output()

        asks = RankInput(
            lambda: self._rank,
            lambda: self._executor.running_cell_id,
            take_all,
            self._channel.post,
        )
        asks.install()
        return asks

    def _watch_libraries(self, shell: RankShell) -> ImportHooks:
        """Return the hooks on imports, which have libraries show things as ranks do."""
        hooks = ImportHooks()
        hooks.install()
        watch_tqdm(hooks, self._outputs.bars)
        watch_rich(hooks)
        self._comms.watch(hooks)
        OutputAreas(self._comms, self._outputs, shell).watch(hooks)
        return hooks

    def _make_checkpoint(self) -> Checkpoint:
        """Make the `checkpoint` of the namespace, which notices of preemption save with too."""
        checkpoint = Checkpoint(self._checkpoints, self._preemption)
        directory = self._config.save_on_preempt
        self._preemption.duties = RankDuties(self._checkpoints, checkpoint, directory)
        return checkpoint

    def _make_frameworks(self, shell: RankShell, hooks: ImportHooks) -> Frameworks:
        config, say = self._config, (self._channel.post, self._outputs.add)
        context = EngineRankContext(
            config.info,
            config.bind_host,
            config.run_dir,
            shell,
            self._collectives,
            self._recorder,
            *say,
            self._debugging.held,
        )
        return make_frameworks(context, hooks, config.jax)

    def live(self) -> NoReturn:
        """Join, serve, leave."""
        _open(self._channel, self._config)
        self._link.start()
        self._say_hello(self._config.generation)
        while True:
            work = self._channel.next_work()
            if isinstance(work, Delivery):
                self._handle(work)
            else:
                work()

    def _handle(self, delivery: Delivery) -> None:
        """Do what a message asks for; what goes wrong here is told, and costs no state."""
        try:
            self._do(delivery)
        except BaseException as error:  # ours, or of hooks that a cell has set
            answer = answer_failure(delivery.message, error, self._rank, self._outputs.offsets)
            if answer is None:
                raise
            self._channel.answer(answer)

    def _do(self, delivery: Delivery) -> None:
        message = delivery.message
        match message:
            case RunCell():
                self._run(message)
            case Regroup():
                self._regroup(message)
            case Welcome():
                self._join(message)
            case StoreObjects():
                self._store(message, delivery)
            case FetchObject():
                self._fetch(message)
            case TakeAxes():
                self._namespace.take_axes(message.axes)
            case Leave():
                self._leave()
            case _:
                assert_never(message)

    def _run(self, cell: RunCell) -> None:
        self._channel.is_cell_waiting = False
        self._told_offsets, told = self._outputs.offsets, self._told_offsets
        if self._told_offsets != told:
            # What tasks of ipyparallel have said is told elsewhere: these are no words of the cell.
            self._channel.answer(CellOutput(self._rank, cell.cell_id, (), self._told_offsets))
        self._termination.install()  # others may want to know before this rank has asked
        self._preemption.enter_cell(cell.cell_id)
        self._comms.are_shown = cell.shows_widgets
        run = self._executor.run
        result = run(cell) if cell.stops is None else self._debugging.run(cell, run)
        self._told_offsets = result.offsets
        self._channel.answer(result)
        self._preemption.leave_cell()  # what it tells may end the agent, and with it this rank

    def _regroup(self, regroup: Regroup) -> None:
        self._rank = self._executor.rank = self._recorder.rank = self._channel.rank = regroup.rank
        try:
            self._namespace.communicator.close()
            self._listener = bind_listener(self._config.bind_host)
        except OSError as error:
            self._channel.answer(NotReady(self._rank, regroup.generation, str(error)))
            return
        self._say_hello(regroup.generation)

    def _say_hello(self, generation: int) -> None:
        address = address_of(self._listener)
        hello = Hello(
            self._rank,
            generation,
            os.getpid(),
            address,
            self._frameworks.formed(),
            can_open(self._config.memory_proof),
        )
        self._channel.answer(hello)

    def _join(self, welcome: Welcome) -> None:
        info = welcome.info
        self._collectives.enter_generation(welcome.generation, info.rank, info.world_size)
        self._checkpoints.enter_generation(Seat(info, welcome.generation, self._config.cluster))
        try:
            communicator = make_communicator(
                welcome,
                self._listener,
                self._config.collective_timeout_s,
                self._recorder,
                self._collectives,
                self._debugging.held,
            )
            self._namespace.enter_generation(welcome.info, communicator)
            self._namespace.take_axes(welcome.axes)
            notes = self._frameworks.enter_generation(info, welcome.generation, welcome.frameworks)
        except (OSError, ValueError, CommunicatorError) as error:
            self._channel.answer(NotReady(self._rank, welcome.generation, str(error)))
            return
        self._channel.answer(Ready(self._rank, welcome.generation, notes))
        self._preemption.tell_interest(again=True)

    def _store(self, message: StoreObjects, delivery: Delivery) -> None:
        problem = self._objects.store(message, delivery.buffers)
        self._channel.answer(ObjectsStored(self._rank, message.request_id, problem))

    def _fetch(self, message: FetchObject) -> None:
        problem, sizes, frames = self._objects.fetch(message)
        request_id = message.request_id
        for offset, frame_bytes, piece in cut_with_offsets(frames) if sizes else ():
            found = FetchedPiece(self._rank, request_id, offset, frame_bytes)
            self._channel.answer(found, [piece])
        whole = () if sizes else frames
        self._channel.answer(ObjectFetched(self._rank, request_id, problem, sizes), whole)

    def _leave(self) -> NoReturn:
        self._tasks.leave()
        self._namespace.communicator.close()
        self._frameworks.leave()
        self._recorder.close()
        atexit._run_exitfuncs()  # noqa: SLF001  (interpreter shutdown would wait for user threads)
        self._channel.flush()
        end_normally()

    # --- on the thread in charge of the channel, while a cell may run ---

    def on_abort(self, message: AbortCommunicator, _frames: list[Frame]) -> None:
        """Break the communicator: a peer has failed."""
        self._collectives.abort(message.failed_rank, message.reason)
        self._frameworks.break_off(message.failed_rank, message.reason)
        communicator = self._namespace.communicator
        if communicator.generation == message.generation:
            communicator.abort(message.failed_rank, message.reason)

    def on_answer(self, message: Answer, frames: list[Frame]) -> None:
        """Hand over what the cell waits for."""
        self._collectives.on_answer(message, frames)
        self._standing.on_answer(message, frames)

    def on_input(self, message: InputAnswered, _frames: list[Frame]) -> None:
        """Hand over what a person was asked for."""
        self._input.on_answer(message)

    def on_question(self, message: Question, _frames: list[Frame]) -> None:
        """Answer a question about the namespace."""
        self._observer.ask(message)

    def on_controller(
        self, message: JoinController | LeaveController, _frames: list[Frame]
    ) -> None:
        """Join or leave a controller of ipyparallel."""
        self._tasks.order(message)

    def on_notice(self, message: AboutNotices, _frames: list[Frame]) -> None:
        """Take in that a host will be taken away, or that it matters."""
        if not isinstance(message, HeedNotices):
            self._preemption.on_message(message)
            return
        self._termination.is_passed_over = message.is_wanted
        if message.is_wanted:
            self._channel.hand_over(self._termination.install)

    def on_widget(self, message: CommReceived, frames: list[Frame]) -> None:
        """Let an event of a widget wait for the main thread."""
        self._widgets.take(message, frames)

    def on_debugger(self, message: AboutDebugger, _frames: list[Frame]) -> None:
        """Hold deadlines, or let them go on; leave a debugger."""
        self._debugging.on_message(message)

    def on_beginning(self) -> None:
        """Forget who has failed before: a cell or a generation has come."""
        self._collectives.expect_cell()
        self._frameworks.expect_cell()

    def take_output(self) -> Message | None:
        """Return a message with what the running cell has said, or None."""
        if not (cell_id := self._executor.running_cell_id):
            return None
        outputs, offsets = self._outputs.take(cell_id)
        return CellOutput(self._rank, cell_id, outputs, offsets) if outputs else None

    def look(self) -> None:
        """Look after what the running cell has queued on devices, and what forms meanwhile."""
        for part in (self._preemption, self._widgets, self._debugging, self._executor):
            part.look()
        is_working = bool(self._executor.running_cell_id) or self._executor.is_in_task
        if is_working:
            self._namespace.communicator.look()
        if is_working or self._frameworks.is_forming:
            self._frameworks.look()


def _open(channel: Channel, config: EngineConfig) -> None:
    channel.open(new_context(is_crowded=are_crowded(config.info.local_world_size)))


def live(config: EngineConfig, shell: RankShell) -> NoReturn:
    """Be this rank until told to leave; an error of its own code ends it, and is told."""
    try:
        Engine(config, shell).live()
    except BaseException as error:  # noqa: BLE001  (whatever it is, the rank ends with it)
        end_with_own_error(error)


def main() -> NoReturn:
    """Start as a fresh interpreter (start method `spawn`): the birth comes on stdin."""
    die_with_parent(int(sys.argv[1]))
    config = msgspec.json.decode(sys.stdin.buffer.readline(), type=EngineConfig)
    if sys.platform != "linux":
        end_at_eof(os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    prepare_process(config)
    live(config, make_shell(f"{config.run_dir}/ipython"))


if __name__ == "__main__":
    main()
