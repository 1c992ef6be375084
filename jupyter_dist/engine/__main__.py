"""One rank's whole life: join, serve, leave."""

import atexit
import os
import sys
from typing import NoReturn, assert_never

import msgspec

from jupyter_dist.collective.recorder import CollectiveRecorder
from jupyter_dist.collective.ring.addresses import address_of, bind_listener
from jupyter_dist.engine.birth import Birth, prepare_process, record_path, stream_path
from jupyter_dist.engine.checkpoint_work import CheckpointWork
from jupyter_dist.engine.checkpointing import Checkpoint
from jupyter_dist.engine.code_imports import present_imports
from jupyter_dist.engine.communicators import make_communicator
from jupyter_dist.engine.council import Seat
from jupyter_dist.engine.ending import end_normally, end_with_own_error
from jupyter_dist.engine.executor import Executor
from jupyter_dist.engine.failures import answer_failure
from jupyter_dist.engine.frameworks import Frameworks, make_frameworks
from jupyter_dist.engine.link import AboutNotices, Delivery, Link
from jupyter_dist.engine.meetings import Meetings
from jupyter_dist.engine.namespace import Namespace
from jupyter_dist.engine.object_work import ObjectWork
from jupyter_dist.engine.observer import Observer
from jupyter_dist.engine.outputs import STREAMS, Outputs
from jupyter_dist.engine.parallel_tasks import ParallelTasks
from jupyter_dist.engine.preemption import Preemption
from jupyter_dist.engine.rich_colours import watch_rich
from jupyter_dist.engine.shell import RankShell, make_shell
from jupyter_dist.engine.standing import StandingMeetings
from jupyter_dist.engine.surroundings import RankSurroundings
from jupyter_dist.engine.termination import Termination
from jupyter_dist.engine.tqdm_bars import watch_tqdm
from jupyter_dist.engine.waiting import Answer
from jupyter_dist.engine.widget_areas import watch_widgets
from jupyter_dist.errors import CommunicatorError
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import (
    AbortCommunicator,
    CellOutput,
    FetchObject,
    HeedNotices,
    Hello,
    Leave,
    Message,
    NotReady,
    ObjectFetched,
    ObjectsStored,
    Ready,
    Regroup,
    RunCell,
    StoreObjects,
    Welcome,
)

FLUSH_TIMEOUT_S = 1.0


class Engine:
    """The main thread of a rank."""

    def __init__(self, birth: Birth, shell: RankShell) -> None:
        self._birth = birth
        self._rank = birth.info.rank
        """It may become another one with a new generation; the name of the engine does not."""
        self._link = Link(birth)
        paths = {name: stream_path(birth.run_dir, birth.engine, name) for name in STREAMS}
        self._outputs = Outputs(paths)
        self._outputs.install()
        self._told_offsets = self._outputs.offsets
        watch_tqdm(self._outputs.bars)
        watch_rich()
        watch_widgets(shell.display_pub)
        shell.tell_where(self._outputs.add, birth.memory_dir, birth.info.local_rank == 0)
        if (imports := present_imports()) is not None:
            shell.events.register("post_run_cell", imports.forget_missing)
        self._recorder = CollectiveRecorder(record_path(birth.memory_dir, birth.engine))
        self._recorder.rank = self._rank
        self._namespace = Namespace(shell, birth.info)
        self._meetings = Meetings(self._rank, birth.info.world_size, self._link.post)
        self._standing = StandingMeetings(self._link.post)
        self._checkpoints = CheckpointWork(
            self._namespace, self._meetings, self._standing, self._outputs.bars
        )
        self._termination = Termination()
        self._preemption = shell.preemption = self._make_preemption()
        self._frameworks = self._make_frameworks(shell)
        self._executor = Executor(
            self._rank,
            shell,
            self._outputs,
            self._namespace,
            self._meetings,
            self._frameworks,
            self._recorder,
        )
        self._executor.is_cell_waiting = lambda: self._link.is_cell_waiting
        self._objects = ObjectWork(self._executor, self._namespace)
        self._tasks = ParallelTasks(
            self._executor, self._outputs, self._link.post, self._link.inbox.put
        )
        self._recorder.name_cell = shell.name_cell
        self._observer = Observer(shell, lambda: self._rank, self._link.post)
        self._listener = bind_listener(birth.bind_host)

    def _make_preemption(self) -> Preemption:
        """Make it, and the `checkpoint` of the namespace, by which users reach it."""
        preemption = Preemption(lambda: self._rank, self._link.post)
        preemption.on_wanted = self._termination.install
        preemption.tell_jax = self._termination.tell_jax
        preemption.is_saving = lambda: self._checkpoints.background.is_saving
        checkpoint = self._namespace.checkpoint = Checkpoint(self._checkpoints, preemption)
        preemption.has_marks = lambda: bool(checkpoint.marked)
        if directory := self._birth.save_on_preempt:
            preemption.save_marked = lambda: checkpoint.save_variables(
                directory, tuple(checkpoint.marked)
            )
        return preemption

    def _make_frameworks(self, shell: RankShell) -> Frameworks:
        birth = self._birth
        surroundings = RankSurroundings(
            birth.info,
            birth.bind_host,
            birth.run_dir,
            shell,
            self._meetings,
            self._recorder,
            self._link.post,
            self._outputs.add,
        )
        return make_frameworks(surroundings, birth.jax)

    def live(self) -> NoReturn:
        """Join, serve, leave."""
        self._link.on_abort = self._abort
        self._link.on_answer = self._on_answer
        self._link.on_beginning = self._begin_anew
        self._link.on_controller = self._tasks.order
        self._link.on_notice = self._on_notice
        self._link.on_question = self._observer.ask
        self._link.take_output = self._take_output
        self._link.look = self._look
        self._link.start()
        self._say_hello(self._birth.generation)
        while True:
            work = self._link.inbox.get()
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
            self._link.post(answer)

    def _do(self, delivery: Delivery) -> None:
        message = delivery.message
        match message:
            case Regroup():
                self._regroup(message)
            case Welcome():
                self._join(message)
            case RunCell():
                self._run(message)
            case StoreObjects():
                self._store(message, delivery)
            case FetchObject():
                self._fetch(message)
            case Leave():
                self._leave()
            case _:
                assert_never(message)

    def _run(self, cell: RunCell) -> None:
        self._link.is_cell_waiting = False
        self._told_offsets, told = self._outputs.offsets, self._told_offsets
        if self._told_offsets != told:
            # What tasks of ipyparallel have said is told elsewhere: these are no words of the cell.
            self._link.post(CellOutput(self._rank, cell.cell_id, (), self._told_offsets))
        self._termination.install()  # others may want to know before this rank has asked
        self._preemption.enter_cell(cell.cell_id)
        result = self._executor.run(cell)
        self._told_offsets = result.offsets
        self._link.post(result)
        self._preemption.leave_cell()  # what it tells may end the agent, and with it this rank

    def _regroup(self, regroup: Regroup) -> None:
        self._rank = self._executor.rank = self._recorder.rank = self._link.rank = regroup.rank
        try:
            self._namespace.communicator.close()
            self._listener = bind_listener(self._birth.bind_host)
        except OSError as error:
            self._link.post(NotReady(self._rank, regroup.generation, str(error)))
            return
        self._say_hello(regroup.generation)

    def _say_hello(self, generation: int) -> None:
        address = address_of(self._listener)
        formed = self._frameworks.formed()
        self._link.post(Hello(self._rank, generation, os.getpid(), address, formed))

    def _join(self, welcome: Welcome) -> None:
        info = welcome.info
        self._meetings.enter_generation(welcome.generation, info.rank, info.world_size)
        self._checkpoints.enter_generation(Seat(info, welcome.generation, self._birth.cluster))
        try:
            communicator = make_communicator(
                welcome,
                self._listener,
                self._birth.collective_timeout_s,
                self._recorder,
                self._meetings,
            )
            self._namespace.enter_generation(welcome.info, communicator)
            notes = self._frameworks.enter_generation(info, welcome.generation, welcome.frameworks)
        except (OSError, ValueError, CommunicatorError) as error:
            self._link.post(NotReady(self._rank, welcome.generation, str(error)))
            return
        self._link.post(Ready(self._rank, welcome.generation, notes))
        self._preemption.tell_interest(again=True)

    def _abort(self, message: AbortCommunicator) -> None:
        """Break the communicator; called by the link thread while a cell may run."""
        self._meetings.abort(message.failed_rank, message.reason)
        self._frameworks.break_off(message.failed_rank, message.reason)
        communicator = self._namespace.communicator
        if communicator.generation == message.generation:
            communicator.abort(message.failed_rank, message.reason)

    def _on_answer(self, answer: Answer, frames: list[Frame]) -> None:
        self._meetings.on_answer(answer, frames)
        self._standing.on_answer(answer, frames)

    def _begin_anew(self) -> None:
        """Forget, on the link thread, who has failed before: a cell or a generation has come."""
        self._meetings.expect_cell()
        self._frameworks.expect_cell()

    def _on_notice(self, message: AboutNotices) -> None:
        """Take in, on the link thread, that a host will be taken away, or that it matters."""
        if not isinstance(message, HeedNotices):
            self._preemption.on_message(message)
            return
        self._termination.is_passed_over = message.is_wanted
        if message.is_wanted:
            self._link.inbox.put(self._termination.install)

    def _look(self) -> None:
        self._preemption.look()
        is_working = bool(self._executor.running_cell_id) or self._executor.is_in_task
        if is_working:
            self._namespace.communicator.look()
        if is_working or self._frameworks.is_forming:
            self._frameworks.look()

    def _take_output(self) -> Message | None:
        cell_id = self._executor.running_cell_id
        if not cell_id:
            return None
        outputs, offsets = self._outputs.take(cell_id)
        return CellOutput(self._rank, cell_id, outputs, offsets) if outputs else None

    def _store(self, message: StoreObjects, delivery: Delivery) -> None:
        problem = self._objects.store(message, delivery.buffers)
        self._link.post(ObjectsStored(self._rank, message.request_id, problem))

    def _fetch(self, message: FetchObject) -> None:
        problem, frames = self._objects.fetch(message)
        self._link.post(ObjectFetched(self._rank, message.request_id, problem), frames)

    def _leave(self) -> NoReturn:
        self._tasks.leave()
        self._namespace.communicator.close()
        self._frameworks.leave()
        self._recorder.close()
        atexit._run_exitfuncs()  # noqa: SLF001  (interpreter shutdown would wait for user threads)
        self._link.flush(FLUSH_TIMEOUT_S)
        end_normally()


def live(birth: Birth, shell: RankShell) -> NoReturn:
    """Be this rank until told to leave; an error of its own code ends it, and is told."""
    try:
        Engine(birth, shell).live()
    except BaseException as error:  # noqa: BLE001  (whatever it is, the rank ends with it)
        end_with_own_error(error)


def main() -> NoReturn:
    """Start without a zygote (start method `spawn`): the birth comes on stdin."""
    birth = msgspec.json.decode(sys.stdin.buffer.readline(), type=Birth)
    prepare_process(birth)
    live(birth, make_shell(f"{birth.run_dir}/ipython"))


if __name__ == "__main__":
    main()
