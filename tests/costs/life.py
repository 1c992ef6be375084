"""One cluster's life from its start to its end, event by event, with the cost of each for all ranks.

An event is what all ranks and hosts do once. What the loop does each time it wakes (`wake ...`) is
apart from the messages that wake it: how often it wakes for a number of them depends on time.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from jupyter_dist.model.ranks.variable_facts import NameInfo, RankNames
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import (
    Answered,
    AskRanks,
    AwaitReady,
    CellOutput,
    CellResult,
    ErrorInfo,
    HealRanks,
    Hello,
    InterruptCell,
    JoinCollective,
    ListNames,
    ObjectFetched,
    ObjectsStored,
    Output,
    PullObject,
    PushObjects,
    Ready,
    SubmitCell,
    WatchTopology,
    WithdrawCell,
)
from tests.costs.coordinator_in_process import InProcess
from tests.costs.steps import Steps

LOOK_S = 0.3
"""After so long a running cell is looked at."""
FLUSH_S = 0.03
"""After so long what has happened in a cell is told."""
LOST_RANK = 3


class Cost(NamedTuple):
    """What one event has cost the coordinator."""

    steps: Counter[str]
    moved_bytes: int


class Life:
    """Lives through all events, one after the other."""

    def __init__(self, cluster: InProcess, steps: Steps) -> None:
        self.costs: dict[str, Cost] = {}
        self._cluster = cluster
        self._steps = steps
        self._cells = self._transfers = self._requests = 0
        self._generation = 1

    @contextlib.contextmanager
    def _event(self, name: str) -> Iterator[None]:
        """Count what is done within as this event."""
        before = self._cluster.moved_bytes
        with self._steps:
            yield
        moved_bytes = self._cluster.moved_bytes - before
        self.costs[name] = Cost(self._steps.by_function(), moved_bytes)

    def live(self) -> dict[str, Cost]:
        """Return what each event has cost."""
        self._start()
        self._be_idle()
        self._run_cells()
        self._move_objects()
        self._ask()
        self._lose_and_heal()
        self._interrupt()
        self._end_badly()
        lost = self._lose_hosts()
        with self._event("stop"):
            assert self._cluster.coordinator.leave() == lost
        return self.costs

    # --- the start ---

    def _start(self) -> None:
        cluster = self._cluster
        cluster.ask(AwaitReady("ready"))
        cluster.take()
        cluster.join_hosts()
        with self._event("hosts join, and are told to start engines"):
            cluster.take()
        for host, ranks in groupby(cluster.ranks, cluster.host_of):
            started = pb.EnginesStarted(pids={str(rank): 100 + rank for rank in ranks})
            cluster.agents.put(host, engines_started=started)
        with self._event("engines start"):
            cluster.take()
        with self._event("wake while engines start"):
            cluster.advance(1.0)
        with self._event("tick while engines start"):
            cluster.tick()
        self._form("")
        assert cluster.coordinator._client_registry.has_been_ready

    def _form(self, when: str) -> None:
        """Let all ranks join the present generation."""
        cluster, generation = self._cluster, self._generation
        for rank in cluster.ranks:
            cluster.say(rank, Hello(rank, generation, 100 + rank, f"p{rank:04}"))
        with self._event(f"Hellos and Welcomes{when}"):
            cluster.take()
        with self._event(f"wake between Hellos and Readys{when}"):
            cluster.advance(0.1)
        for rank in cluster.ranks:
            cluster.say(rank, Ready(rank, generation))
        with self._event(f"Readys{when}"):
            cluster.take()
        assert cluster.coordinator._rendezvous.is_complete
        self._generation += 1

    # --- what goes on all the time ---

    def _be_idle(self) -> None:
        cluster = self._cluster
        cluster.beats.arrived.clear()
        cluster.tick(10.0)  # names are told once
        with self._event("tick that asks for beats"):
            cluster.tick(10.0)
        with self._event("beats"):
            cluster.take()
        with self._event("tick"):
            cluster.tick(0.05)
        cluster.agents.are_away = True
        with self._event("tick while all connections of agents are broken"):
            cluster.tick(0.05)
        cluster.agents.are_away = False
        with self._event("wake while idle"):
            cluster.advance()
        cluster.ask(WatchTopology("look"))
        cluster.take()
        cluster.tick()
        for host in cluster.hosts:  # they are asked to look first
            cluster.agents.put(host, telemetry=self._telemetry(host))
        with self._event("telemetry"):
            cluster.take()
        with self._event("picture"):
            cluster.tick()

    def _telemetry(self, host: str) -> pb.Telemetry:
        cluster = self._cluster
        collective = pb.Collective(sequence=1, operation="all_reduce", seconds=1.0, root=-1)
        engines = [
            pb.EngineSample(
                engine=cluster.engine_names[rank],
                rss_bytes=1 << 30,
                state="S",
                collective=collective,
            )
            for rank in cluster.ranks
            if cluster.host_of(rank) == host
        ]
        return pb.Telemetry(cpu_percent=10.0, memory_used_bytes=1 << 33, engines=engines)

    # --- cells ---

    def _run_cells(self) -> None:
        with self._event("cell, empty"):
            self._run_cell()
        with self._event("cell, a line each"):
            self._run_cell(1)
        with self._event("cell, 100 lines each"):
            self._run_cell(20, messages=5)
        self._submit()
        self._meet()
        with self._event("wake while a cell runs"):
            self._cluster.advance(LOOK_S / 3)
        with self._event("wake that looks who waits for whom"):
            self._cluster.advance(LOOK_S)
        with self._event("tick while a cell runs"):
            self._cluster.tick(0.05)
        self._cluster.ask(SubmitCell("behind", "pass"))
        self._cluster.take()
        with self._event("wake while a cell waits for another"):
            self._cluster.advance(LOOK_S / 3)
        self._cluster.ask(WithdrawCell("behind"))
        self._cluster.take()
        self._end_cell()
        self._cells += 1  # the one that waited had a number too

    def _run_cell(self, lines: int = 0, messages: int = 1) -> None:
        """Let all ranks say so many lines in each of so many messages; the last is the result."""
        self._submit()
        outputs = (Output("stdout", "a line\n" * lines),) if lines else ()
        for number in range(1, messages):
            for rank in self._cluster.ranks:
                offsets = (len("a line\n") * lines * number, 0)
                self._cluster.say(rank, CellOutput(rank, self._cell_id, outputs, offsets))
            self._cluster.take()
            self._cluster.advance(FLUSH_S)
        self._end_cell(outputs=outputs)

    def _meet(self) -> None:
        """Let all ranks come to a barrier of objects in their cell."""
        for rank in self._cluster.ranks:
            attend = JoinCollective(
                rank, self._cell_id, "objects 1", None, "barrier", "barrier_object()"
            )
            self._cluster.say(rank, attend)
        with self._event("meeting of all ranks in a cell"):
            self._cluster.take()

    @property
    def _cell_id(self) -> str:
        return f"cell-{self._cells}"

    def _submit(self) -> None:
        self._cells += 1
        self._cluster.ask(SubmitCell(f"request-{self._cells}", "pass", label=self._cells))
        self._cluster.take()
        self._cluster.advance()
        assert self._cluster.coordinator._scheduler.cell is not None

    def _end_cell(
        self,
        status: str = "ok",
        error: ErrorInfo | None = None,
        outputs: tuple[Output, ...] = (),
        without: int | None = None,
    ) -> None:
        for rank in self._cluster.ranks:
            if rank != without:
                result = CellResult(rank, self._cell_id, status, 0.1, None, error, outputs)
                self._cluster.say(rank, result)
        self._cluster.take()
        self._cluster.advance()
        assert self._cluster.coordinator._scheduler.current is None

    # --- objects and questions ---

    def _move_objects(self) -> None:
        with self._event("push, small"):
            self._push(b"x" * 1000)
        with self._event("push by way of the hosts' memory"):
            self._push(b"x" * (1 << 20))
        with self._event("pull"):
            self._transfers += 1
            self._cluster.ask(PullObject(f"transfer-{self._transfers}", "x"))
            self._cluster.take()
            self._cluster.advance()
            transfer_id = f"transfer-{self._transfers}"
            for rank in self._cluster.ranks:
                self._cluster.say(rank, ObjectFetched(rank, transfer_id), [b"x" * 1000])
            self._end_transfer()

    def _push(self, value: bytes) -> None:
        cluster = self._cluster
        self._transfers += 1
        transfer_id = f"transfer-{self._transfers}"
        cluster.agents.told.clear()
        cluster.ask(PushObjects(transfer_id, ("x",), (1,)), [value])
        cluster.take()
        cluster.advance()
        for host, command in cluster.agents.told:
            placed = pb.Placed(request_id=command.place_chunk.request_id, path="/dev/shm/x")
            cluster.agents.put(host, placed=placed)
        cluster.take()
        for rank in cluster.ranks:
            cluster.say(rank, ObjectsStored(rank, transfer_id))
        self._end_transfer()

    def _end_transfer(self) -> None:
        self._cluster.take()
        self._cluster.advance()
        assert self._cluster.coordinator._scheduler.current is None

    def _ask(self) -> None:
        cluster = self._cluster
        with self._event("question to all ranks"):
            cluster.ask(AskRanks("names", ListNames()))
            cluster.take()
            self._answer(1)
        cluster.ask(AskRanks("names", ListNames()))
        cluster.take()
        with self._event("tick while a question is open"):
            cluster.tick(0.1)
        self._answer(2)

    def _answer(self, number: int) -> None:
        answer = RankNames((NameInfo("x", "int"),))
        for rank in self._cluster.ranks:
            self._cluster.say(rank, Answered(rank, f"question-{number}", answer))
        self._cluster.take()

    # --- what goes wrong ---

    def _lose_and_heal(self) -> None:
        cluster = self._cluster
        self._lose("loss of a rank")
        cluster.agents.told.clear()
        with self._event("heal: begin"):
            cluster.ask(HealRanks("heal"))
            cluster.take()
            cluster.advance()
            self._confirm_signals()
            started = pb.EnginesStarted(pids={f"{LOST_RANK}.1": 99})
            cluster.agents.put(cluster.host_of(LOST_RANK), engines_started=started)
            cluster.take()
        cluster.engine_names[LOST_RANK] = f"{LOST_RANK}.1"
        self._form(" while healing")
        with self._event("heal: end"):
            cluster.advance()
            self._answer(3)
            cluster.advance()
        assert cluster.coordinator._scheduler.current is None

    def _lose(self, name: str) -> None:
        """Let a rank's process end on its own."""
        cluster = self._cluster
        gone = pb.EngineExited(engine=cluster.engine_names[LOST_RANK], pid=99, exit_code=3)
        cluster.agents.put(cluster.host_of(LOST_RANK), engine_exited=gone)
        with self._event(name):
            cluster.take()
            cluster.tick(0.1)
        assert not cluster.coordinator.roster[LOST_RANK].is_present

    def _interrupt(self) -> None:
        cluster = self._cluster
        self._submit()
        cluster.agents.told.clear()
        with self._event("interrupt"):
            cluster.ask(InterruptCell("interrupt"))
            cluster.take()
            self._confirm_signals()

    def _confirm_signals(self) -> None:
        """Let agents say that they have sent the signals that they were told to send."""
        for host, command in self._cluster.agents.told:
            if command.WhichOneof("command") == "send_signal":
                sent = pb.SignalSent(request_id=command.send_signal.request_id)
                self._cluster.agents.put(host, signal_sent=sent)
        self._cluster.take()

    def _end_badly(self) -> None:
        with self._event("end of an interrupted cell"):
            self._end_cell("interrupted", ErrorInfo("KeyboardInterrupt", "interrupted"))
        self._form(" after an interrupt")
        self._submit()
        with self._event("end of a cell in which all raise"):
            self._end_cell("raised", ErrorInfo("NameError", "name 'x' is not defined"))
        self._form(" after an error")
        self._submit()
        self._lose("loss of a rank in a cell")
        with self._event("end of a cell with a lost rank"):
            error = ErrorInfo("PeerFailed", "left the collective", peer_rank=LOST_RANK)
            self._end_cell("peer_failed", error, without=LOST_RANK)

    def _lose_hosts(self) -> set[str]:
        """Let the agents of half of the hosts be gone; return these."""
        cluster = self._cluster
        lost = {*cluster.hosts[len(cluster.hosts) // 2 :]}
        cluster.agents.arrived.extend((host, None) for host in sorted(lost))
        with self._event("loss of half of the hosts"):
            cluster.take()
            cluster.tick(1.6)  # of however many hosts: those that are left are asked for beats
        return lost
