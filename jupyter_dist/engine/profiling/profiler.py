"""The one profile that a rank may have at a time: begun by one question, ended by another."""

import threading
from collections.abc import Callable
from functools import partial
from time import monotonic_ns
from types import CodeType
from typing import Protocol

from IPython.core.interactiveshell import InteractiveShell
from msgspec.structs import replace

from jupyter_dist.engine.profiling.sampler import Sampler
from jupyter_dist.engine.shell.rank_shell import RankShell
from jupyter_dist.errors import UsageError
from jupyter_dist.frameworks.thread_frames import read_places
from jupyter_dist.model.ranks.profiles import (
    MOST_PROFILE_S,
    Allocation,
    ProfileBegun,
    RankProfile,
)
from jupyter_dist.model.ranks.stack_reading import Call
from jupyter_dist.protocol.messages import BeginProfile, EndProfile, NoAnswer


class _Noting(Protocol):
    """One way to take note of what the rank does, from its making on."""

    def end(self) -> RankProfile:
        """Stop, and return what was noted."""


class Profiler:
    """Begins and ends profiles of this rank."""

    def __init__(self, shell: RankShell) -> None:
        self._shell = shell
        self._profile_id = ""
        self._noting: _Noting | None = None
        self._expiry: threading.Timer | None = None
        self._kept: RankProfile | None = None
        """Of a profile that ended at its time, until it is asked for, or another one begins."""
        self._until_ns = 0
        """When it ends, if no one ends it before."""
        self._turn = threading.Lock()

    def begin(self, order: BeginProfile) -> ProfileBegun | NoAnswer:
        """Take note from now on; refuse while another profile runs, and what is not installed."""
        with self._turn:
            if self._noting is not None:
                left_s = (self._until_ns - monotonic_ns()) / 1e9
                return NoAnswer(f"another profile of it runs, for {left_s:.0f} s at most")
            began_ns = monotonic_ns()
            try:
                self._noting = self._note(order)
            except UsageError as problem:
                return NoAnswer(str(problem))
            self._profile_id, self._kept = order.profile_id, None
            most_s = min(max(order.most_s, 0.0), MOST_PROFILE_S)
            # Who has begun it may be gone: what a profile costs must not be paid for ever.
            self._until_ns = began_ns + round(most_s * 1e9)
            self._expiry = threading.Timer(most_s, self._expire, (order.profile_id,))
            self._expiry.daemon = True
            self._expiry.start()
            return ProfileBegun(began_ns)

    def end(self, order: EndProfile) -> RankProfile | NoAnswer:
        """Return what was noted since then."""
        with self._turn:
            if self._profile_id != order.profile_id:
                return NoAnswer("it was not profiled: it is new here, or came too late")
            found = self._kept if self._noting is None else self._stop()
            self._profile_id, self._kept = "", None
            return found or NoAnswer("its profile could not be kept")

    def _expire(self, profile_id: str) -> None:
        with self._turn:
            if self._noting is not None and self._profile_id == profile_id:
                self._kept = self._stop()

    def _stop(self) -> RankProfile:
        noting, self._noting = self._noting, None
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        assert noting is not None, "it is asked before"
        return noting.end()

    def _note(self, order: BeginProfile) -> _Noting:
        match order.kind:
            case "memory" | "sampling":
                return self._note_native(order) if order.is_native else self._note_python(order)
            case _:
                from jupyter_dist.engine.profiling.traces import begin_trace

                return begin_trace(order.kind)

    def _note_python(self, order: BeginProfile, note: str = "") -> _Noting:
        if order.kind == "sampling":
            return _Samples(self._shell, order.most_s, note)
        from jupyter_dist.engine.profiling.allocations import AllocationWatch

        return _Memory(AllocationWatch(), self._shell.name_cell, note)

    def _note_native(self, order: BeginProfile) -> _Noting:
        """Have py-spy or memray look; where they cannot, look at Python alone, and say why."""
        try:
            if order.kind == "sampling":
                from jupyter_dist.engine.profiling.native_samples import NativeSamples

                return NativeSamples(self._shell, order.most_s)
            from jupyter_dist.engine.profiling.native_allocations import NativeAllocationWatch

            note = "memray took note; memory of C and C++ counts too"
            return _Memory(NativeAllocationWatch(), self._shell.name_cell, note)
        except UsageError as problem:
            return self._note_python(order, f"{problem}; what C and C++ do is not seen")


class _Samples:
    def __init__(self, shell: RankShell, most_s: float, note: str) -> None:
        self._shell = shell
        self._told = note
        ident = threading.main_thread().ident or 0
        # What calls cells: to walk further out costs as much as all the rest of a look.
        calls_cells: CodeType = InteractiveShell.run_code.__code__
        self._sampler = Sampler(ident, most_s, partial(read_places, until=calls_cells))
        self._sampler.start()

    def end(self) -> RankProfile:
        from jupyter_dist.engine.profiling.samples import SeenStacks

        shell, sampler = self._shell, self._sampler
        sampler.end()
        stacks = (
            tuple(Call(code.co_filename, line, code.co_qualname) for code, line in places)
            for places in sampler.stacks
        )
        seen = SeenStacks(stacks, shell.name_cell, lambda: shell.current_cell)
        return RankProfile(
            "sampling",
            sampler.began_ns,
            sampler.ended_ns,
            frames=seen.frames,
            stacks=seen.stacks,
            times_us=tuple(sampler.times_us),
            samples=tuple(sampler.samples),
            cost_ns=sampler.cost_ns,
            note=self._told,
        )


class _Watch(Protocol):
    def end(self, name_cell: Callable[[str], str]) -> tuple[int, tuple[Allocation, ...]]:
        """Stop, and return what all lines hold together in bytes, and those that hold most."""


class _Memory:
    def __init__(self, watch: _Watch, name_cell: Callable[[str], str], note: str) -> None:
        self._watch = watch
        self._name_cell = name_cell
        self._told = note
        self._began_ns = monotonic_ns()

    def end(self) -> RankProfile:
        held, largest = self._watch.end(self._name_cell)
        profile = RankProfile("memory", self._began_ns, monotonic_ns(), note=self._told)
        return replace(profile, allocations=largest, held_bytes=held)
