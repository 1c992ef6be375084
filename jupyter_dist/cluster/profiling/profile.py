"""What came of a profile of several ranks."""

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import chain

import msgspec

from jupyter_dist.cluster.collectives.recorded_calls import CollectiveLog
from jupyter_dist.cluster.collectives.timeline import Event, Timeline
from jupyter_dist.cluster.collectives.timeline_file import find_target, trace_pieces, write_whole
from jupyter_dist.cluster.profiling.call_tree import CallTree
from jupyter_dist.cluster.profiling.rank_times import (
    Part,
    RankTime,
    SampledPart,
    Window,
    find_parts,
    find_window,
    own_place,
    read_samples,
    sum_up,
)
from jupyter_dist.cluster.profiling.slowness import Slowness, find_slowness
from jupyter_dist.cluster.profiling.speedscope import BEGINNING, speedscope_pieces
from jupyter_dist.cluster.profiling.trace import framework_events, sample_events
from jupyter_dist.errors import UsageError
from jupyter_dist.model.ranks.profiles import RankProfile
from jupyter_dist.model.ranks.stacks import Frame, RankStacks
from jupyter_dist.options.start_options import StrPath
from jupyter_dist.text.lists import group_pairs, name_some


class Gathered(msgspec.Struct, frozen=True):
    """What came back from the ranks."""

    kind: str
    ranks: Mapping[int, RankProfile]
    problems: Mapping[int, str]
    """Ranks that have told nothing, with the reason."""
    glimpses: Mapping[int, RankStacks] = {}
    """Of silent ranks that run a cell: what was seen from outside at the end, if anything was."""
    gpu_bytes: Mapping[int, int] = {}
    """Memory on GPUs that each rank's process holds, as the driver knows it."""


class Profile:
    """A profile of ranks, on one clock; `str()` says who is slow, and where."""

    def __init__(self, cluster: str, gathered: Gathered, log: CollectiveLog) -> None:
        self.cluster = cluster
        self.kind = gathered.kind
        self._timeline = Timeline(cluster, log.hosts, log.problems, log.world_size)
        known, told = self._timeline.hosts, gathered.ranks
        self.ranks = {rank: own for rank, own in sorted(told.items()) if rank in known}
        """What each rank has told."""
        unread = dict.fromkeys(told.keys() - known, "the clock of its host could not be read")
        self.problems = {**gathered.problems, **unread}
        """Ranks that are not in it, with the reason."""
        self.gpu_bytes = gathered.gpu_bytes
        self._glimpses = gathered.glimpses

    @cached_property
    def window(self) -> Window:
        """The time that is compared."""
        return find_window(self._timeline, self.ranks)

    @cached_property
    def samples(self) -> dict[int, list[SampledPart]]:
        """What was seen of each rank in that time; the calls of recorders are among it."""
        return {rank: self._samples_of(rank, self.window) for rank in self._sampled}

    @cached_property
    def times(self) -> dict[int, RankTime]:
        """How each rank spent that time, also one of which only its recorder tells."""
        found = {}
        for rank in sorted({*self.ranks, *self._glimpses}):
            parts, samples = self._parts[rank], self.samples.get(rank)
            own = sum_up(rank, parts, samples, self.window)
            stack = self._stack_seen(rank)
            if samples is None and stack:
                own.places[own_place(stack)] = own.work_s
            found[rank] = own
        return found

    @cached_property
    def slowness(self) -> Slowness:
        """Who is slow, and where."""
        return find_slowness(self.times, self.window)

    @cached_property
    def tree(self) -> CallTree:
        """The calls of all ranks."""
        return CallTree(self.samples)

    @property
    def hosts(self) -> dict[int, str]:
        """The host of each rank that is known."""
        return self._timeline.hosts

    @property
    def notes(self) -> list[str]:
        """What to know about it; sentences."""
        reasons = group_pairs((reason, f"rank {rank}") for rank, reason in self.problems.items())
        found = [f"{name_some(who)}: {reason}" for reason, who in reasons.items()]
        notes = [(own.note, rank) for rank, own in self.ranks.items()]
        notes += [(own.note, rank) for rank, own in self._glimpses.items()]
        told = group_pairs((note, f"rank {rank}") for note, rank in notes)
        found += [f"{name_some(who)}: {note}" for note, who in told.items() if note]
        if self.window.is_cut:
            found.append(
                f"recorders keep 2048 calls: compared are the last {self.window.seconds:.2g} s"
            )
        return found

    def write_trace(self, path: StrPath, *, force: bool = False) -> str:
        """Write ranks side by side, and their collectives as one lane, for Perfetto and Chrome.

        Return the path. Raise UsageError for an existing file that is no trace of jupyter-dist,
        unless it is forced, and for one that cannot be written.
        """
        target = find_target(path, is_forced=force)
        write_whole(path, target, trace_pieces(self._timeline, self._events()))
        return os.fspath(path)

    def write_speedscope(self, path: StrPath, *, force: bool = False) -> str:
        """Write the samples for https://www.speedscope.app; return and raise as `write_trace`."""
        if self.kind != "sampling":
            raise UsageError(f"a profile with {self.kind} has no samples. Take one with sampling.")
        target = find_target(
            path, is_forced=force, beginning=BEGINNING, what="a speedscope profile"
        )
        write_whole(path, target, speedscope_pieces(self.samples, self.cluster))
        return os.fspath(path)

    def __str__(self) -> str:
        return "\n".join([str(self.slowness), *self.notes])

    @cached_property
    def _parts(self) -> dict[int, list[Part]]:
        ranks = {*self.ranks, *self._glimpses}
        return {rank: find_parts(self._timeline, rank, self.window) for rank in ranks}

    @property
    def _sampled(self) -> list[int]:
        return [rank for rank, own in self.ranks.items() if own.kind == "sampling"]

    def _samples_of(self, rank: int, window: Window) -> list[SampledPart]:
        offset_ns = self._timeline.offset_ns(rank) or 0
        return list(read_samples(self.ranks[rank], offset_ns, self._parts[rank], window))

    def _stack_seen(self, rank: int) -> tuple[Frame, ...]:
        seen = self._glimpses.get(rank)
        return seen.main.frames if seen is not None and seen.main is not None else ()

    def _events(self) -> Iterator[Event]:
        lanes = [sample_events(rank, own, self._timeline) for rank, own in self.samples.items()]
        lanes += [
            framework_events(rank, own.trace, self._timeline)
            for rank, own in self.ranks.items()
            if own.trace
        ]
        return chain(self._timeline.common_events(), *lanes)
