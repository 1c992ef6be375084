"""Everyone says Hello and learns where the others are; the number of that round is a generation."""

import secrets
from collections.abc import Iterable
from typing import assert_never

from jupyter_dist.coordinator.state.engine_state import EngineEvent, EngineState
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.model.hosts.axes import Axes
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.model.ranks.initialized import plan_frameworks
from jupyter_dist.protocol.messages import (
    AbortCommunicator,
    Hello,
    NotReady,
    Ready,
    Regroup,
    TakeAxes,
    Welcome,
)
from jupyter_dist.protocol.places import Place, find_runs, key_of, ranks_to_know
from jupyter_dist.text.plurals import fit


class Rendezvous:
    """Forms one generation after the other; does no input or output itself."""

    def __init__(self, roster: Roster, sender: Sender) -> None:
        self._roster = roster
        self._sender = sender
        self.communicator = ""
        """Its kind, once all hosts have told what they have."""
        self.generation = 1
        self.problem = ""
        """Why this generation could not be formed, or empty."""
        self.is_welcomed = False
        """All have said Hello in this generation, and know where the others are."""
        self._hellos: dict[int, Hello] = {}
        self.places: dict[str, Place] = {}
        """Where the ranks of this generation are, by the key of the value that tells that."""
        self._ready: set[int] = set()
        self._members: set[int] = set()
        """Ranks of this generation that were there before it."""
        self.is_forming_frameworks = False
        """Ranks form more than a communicator, which takes longer."""
        self.always_formed: tuple[str, ...] = ()
        """Frameworks that are formed even if no rank has imported them."""
        self._notes: dict[str, set[int]] = {}
        """What ranks want their user to know of this generation, with those that say so."""
        self._expected = set(range(roster.world_size))
        self.is_broken = False
        """The communicator was aborted, or may be out of step: the next cell needs a new one."""
        self.lost_rank = -1
        """The one that was lost last."""
        self._whole_since = 1

    @property
    def is_complete(self) -> bool:
        """Every expected rank is ready in this generation."""
        return self._ready >= self._expected and not self.problem and self._roster.world_size > 0

    @property
    def present_ranks(self) -> set[int]:
        """Ranks that have said Hello in this generation."""
        return set(self._hellos)

    @property
    def ready_ranks(self) -> set[int]:
        """Ranks whose communicator of this generation stands."""
        return set(self._ready)

    @property
    def missing_ranks(self) -> list[int]:
        """Ranks that are not ready yet."""
        return sorted(self._expected - self._ready)

    @property
    def awaited_ranks(self) -> list[int]:
        """Ranks that the others wait for: who has not said Hello, else who is not ready yet."""
        return sorted(self._expected - set(self._hellos)) or self.missing_ranks

    @property
    def ranks_kept_by_tasks(self) -> list[int]:
        """Ranks that the others wait for, and that hear of it after a task of ipyparallel."""
        in_tasks = set(self._roster.ranks_in_tasks)
        return [rank for rank in self.awaited_ranks if rank in in_tasks] if in_tasks else []

    def describe_tasks(self) -> str:
        """Return which tasks keep ranks from this generation; empty: none does."""
        ranks = self.ranks_kept_by_tasks
        if not ranks:
            return ""
        labels = sorted({self._roster[rank].task for rank in ranks})
        verb, them = fit(ranks, ("runs a task", "it"), ("run tasks", "them"))
        told = f"{name_ranks(ranks)} {verb} of ipyparallel ({', '.join(labels)})"
        return f"all ranks must meet again first, and {told}; %dist_interrupt ends {them}"

    def is_whole_since(self, generation: int) -> bool:
        """Return whether all ranks that were there in this generation live, with the same ranks."""
        return self._whole_since <= generation <= self.generation

    def expect_all(self) -> None:
        """Wait for every rank, now that it is known how many there are."""
        self._expected = set(range(self._roster.world_size))

    @property
    def axes_version(self) -> int:
        """How often axes have been named or dropped."""
        return self._roster.axes.version

    def take_axes(self, axes: Axes) -> None:
        """Have all ranks know these axes, those too that are on their way into a generation."""
        self._roster.axes = axes
        self._sender.to_engines(self._roster.present_ranks(), TakeAxes(self._roster.axes))

    def on_message(self, message: Hello | Ready | NotReady) -> None:
        """Take in what an engine says of a generation."""
        match message:
            case Hello():
                self.on_hello(message)
            case Ready():
                self.on_ready(message)
            case NotReady():
                self.on_not_ready(message)
            case _:
                assert_never(message)

    def on_hello(self, hello: Hello) -> None:
        """Take in who is there; with the last one, tell everybody."""
        if hello.generation != self.generation:
            return  # from an older round; it will say Hello again
        engine = self._roster[hello.rank]
        engine.pid, engine.shares_memory = hello.pid, hello.shares_memory
        self._hellos[hello.rank] = hello
        if not self.is_broken and self._hellos.keys() >= self._expected:
            self._welcome_all()

    def on_ready(self, ready: Ready) -> None:
        """Note that a rank's communicator stands."""
        if ready.generation != self.generation or ready.rank in self._ready:
            return
        engine = self._roster[ready.rank]
        for note in ready.notes if not self.is_broken else ():
            self._notes.setdefault(note, set()).add(ready.rank)
        if engine.state is EngineState.STARTING:
            engine.apply(EngineEvent.JOINED)
            self._ready.add(ready.rank)

    def on_not_ready(self, answer: NotReady) -> None:
        """Note why a generation fails; ranks that had one before are idle without it."""
        if answer.generation != self.generation or self.is_broken:
            return  # a loss has been in the way, or another rank has said so before
        self.give_up(f"rank {answer.rank}: {answer.reason}")

    def give_up(self, problem: str) -> None:
        """Wait no longer for this generation."""
        self.problem = problem
        self.is_broken = True
        self._release()

    def on_lost(self, rank: int) -> None:
        """Note that a rank will not come: no communicator of all ranks can stand any more.

        Ranks that are regrouping go on without one, and are told not to wait for it; a loss in
        the first round ends the start.
        """
        self.is_broken = True
        self.lost_rank, self._whole_since = rank, self.generation + 1
        is_forming = len(self._ready) < len(self._expected)
        self._expected.discard(rank)
        self._ready.discard(rank)
        if is_forming:
            joining = self._roster.ranks_in(EngineState.STARTING)
            reason = f"was lost while generation {self.generation} was formed"
            abort = AbortCommunicator(self.generation, rank, reason)
            self._sender.to_engines([other for other in joining if other != rank], abort)
            self._release()

    def _release(self) -> None:
        """Let ranks that wait for a later generation than the first be idle without one."""
        if self.generation == 1:
            return
        for rank in self._roster.ranks_in(EngineState.STARTING):
            if rank in self._hellos or rank in self._members:
                self._roster[rank].apply(EngineEvent.JOINED)

    def regroup(self, newcomers: Iterable[int] = ()) -> None:
        """Begin a new generation with every idle rank, and those that are being started for it."""
        present = self._roster.ranks_in(EngineState.IDLE)
        if not self.is_complete:
            self._notes.clear()  # of a generation that never stood
        self.is_forming_frameworks = False
        self.generation += 1
        self.is_welcomed = False
        self.is_broken = False
        self.problem = ""
        self._hellos.clear()
        self.places.clear()
        self._ready.clear()
        self._expected = {*present, *newcomers}
        self._members = set(present)
        for rank in present:
            self._roster[rank].apply(EngineEvent.REGROUPED)
            self._sender.to_engine(rank, Regroup(self.generation, rank))

    def add_note(self, text: str) -> None:
        """Let the user know this of the new generation, whatever ranks say of it."""
        self._notes[text] = set(range(self._roster.world_size))

    def take_notes(self) -> tuple[str, ...]:
        """Give, once, what the user should know of the generation that was formed."""
        notes, self._notes = self._notes, {}
        everyone = set(range(self._roster.world_size))
        return tuple(
            text if ranks == everyone else f"{name_ranks(ranks)}: {text}"
            for text, ranks in notes.items()
        )

    def _welcome_all(self) -> None:
        self.is_welcomed = True
        ranks = sorted(self._expected)
        places = {
            rank: Place(self._hellos[rank].address, self._roster[rank].info.host) for rank in ranks
        }
        self.places = {key_of(rank): place for rank, place in places.items()}
        hosts = find_runs(place.address.rpartition(":")[0] for place in places.values())
        key = secrets.token_bytes(32)
        formed = {rank: hello.formed for rank, hello in sorted(self._hellos.items())}
        plans = plan_frameworks(formed, self._roster.world_size, self.always_formed)
        self.is_forming_frameworks = not all(plan.is_kept for plan in plans)
        for rank in ranks:
            peers = {peer: places[peer] for peer in ranks_to_know(rank, len(ranks))}
            welcome = Welcome(
                self.generation,
                self._roster[rank].info,
                self.communicator,
                peers,
                key,
                plans,
                hosts,
                self._roster.axes,
            )
            self._sender.to_engine(rank, welcome)
