"""Begins a profile on ranks, ends it, and gathers what they have noted."""

import contextlib
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from jupyter_dist.cluster.connection.connection import Connection
from jupyter_dist.cluster.profiling.profile import Gathered, Profile
from jupyter_dist.cluster.variables.rank_queries import ask_each, ask_ranks, ask_stacks
from jupyter_dist.errors import UsageError
from jupyter_dist.model.ranks.profiles import (
    MOST_PROFILE_S,
    NATIVE_KINDS,
    ProfileBegun,
    RankProfile,
    read_kind,
)
from jupyter_dist.model.ranks.stacks import RankStacks
from jupyter_dist.protocol.messages import BeginProfile, EndProfile, NoAnswer
from jupyter_dist.text.lists import group_pairs, name_some

if TYPE_CHECKING:
    from jupyter_dist.cluster.observed import ObservedCluster

BEGIN_S = {"sampling": 2.0, "memory": 5.0, "jax": 20.0, "torch": 20.0}
"""Ranks that have not begun by then are left out, unless they come to it before the end."""
END_S = {"sampling": 5.0, "memory": 30.0, "jax": 60.0, "torch": 60.0}
"""Traces of frameworks are read and packed by the ranks."""
NATIVE_S = 20.0
"""More than that, for symbols of libraries that are read."""


class Profiling:
    """A profile that runs, until `end`; as a context manager it ends in any case."""

    def __init__(
        self,
        session: "ObservedCluster",
        line: Connection,
        ranks: Sequence[int],
        kind: str,
        is_native: bool,
    ) -> None:
        self._session = session
        self._line = line
        self._ranks = tuple(ranks)
        self._kind = kind
        self._is_native = is_native
        self._more_s = NATIVE_S if is_native else 0.0
        self._id = secrets.token_hex(8)  # those of requests are a line's own
        self._over = threading.Event()
        self.profile: Profile | None = None
        """What came of it, once it has ended."""

    def begin(self, most_s: float) -> None:
        """Have ranks take note; raise UsageError where they cannot, and nothing runs then."""
        order = BeginProfile(self._id, self._kind, most_s, self._is_native)
        within_s = BEGIN_S[self._kind] + self._more_s
        answered = ask_each(self._line, order, self._ranks, within_s)
        refused = {
            rank: answer.reason
            for rank, answer in answered.answers.items()
            if isinstance(answer, NoAnswer)
        }
        begun = [rank for rank, own in answered.answers.items() if isinstance(own, ProfileBegun)]
        if refused or not begun:
            self._drop()
            raise UsageError(_why_not({**answered.problems, **refused}))

    def wait(self, seconds: float) -> None:
        """Let ranks work for this time; Ctrl-C ends that earlier, and is not raised."""
        with contextlib.suppress(KeyboardInterrupt):
            self._over.wait(seconds)

    def end(self) -> Profile:
        """Stop, and gather what ranks have noted; the ranks that say nothing are named."""
        if self.profile is not None:
            return self.profile
        try:
            within_s = END_S[self._kind] + self._more_s
            answers, problems = ask_ranks(self._line, EndProfile(self._id), self._ranks, within_s)
            found = {rank: own for rank, own in answers.items() if isinstance(own, RankProfile)}
            gathered = Gathered(
                self._kind, found, problems, self._look_at(problems), self._gpu_bytes(found)
            )
            log = self._session.collectives(last=0)
            self.profile = Profile(self._session.name, gathered, log)
        finally:
            self._line.close()
        return self.profile

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.end()

    def _look_at(self, silent: Mapping[int, str]) -> dict[int, RankStacks]:
        """Look from outside at silent ranks in a cell: native code may hold their interpreter.

        Where nothing can be seen, their records still tell that others wait for them.
        """
        if self._kind != "sampling" or not silent:
            return {}
        seen = ask_stacks(self._line, tuple(silent), is_native=False)
        engines = self._session.topology().engines
        busy = {each.rank for each in engines if each.cell and each.state != "lost"}
        return {rank: own for rank, own in seen.items() if rank in busy}

    def _gpu_bytes(self, found: Mapping[int, RankProfile]) -> dict[int, int]:
        if self._kind != "memory":
            return {}
        engines = self._session.topology().engines
        return {each.rank: each.gpu_memory_bytes for each in engines if each.rank in found}

    def _drop(self) -> None:
        """Have those that did begin stop."""
        try:
            ask_each(self._line, EndProfile(self._id), self._ranks, BEGIN_S[self._kind])
        finally:
            self._line.close()


def check_duration(seconds: float) -> None:
    """Raise UsageError for a time that no profile can take."""
    if not 0 < seconds <= MOST_PROFILE_S:
        raise UsageError(
            f"a profile of {seconds:g} s is not accepted. Accepted: more than 0 s, and "
            f"{MOST_PROFILE_S:g} s at most."
        )


def begin_profile(
    session: "ObservedCluster",
    new_line: Callable[[], Connection],
    ranks: Sequence[int],
    kind: str,
    *,
    native: bool = False,
    most_s: float = MOST_PROFILE_S,
) -> Profiling:
    """Begin a profile of this kind; raise UsageError where that is not possible."""
    kind = read_kind(kind)
    if native and kind not in NATIVE_KINDS:
        raise UsageError(
            f"a native profile with {kind} is not accepted: its profiler decides what it sees. "
            f"Accepted: {', '.join(NATIVE_KINDS)}."
        )
    profiling = Profiling(session, new_line(), ranks, kind, native)
    profiling.begin(most_s)
    return profiling


def take_profile(
    session: "ObservedCluster",
    new_line: Callable[[], Connection],
    ranks: Sequence[int],
    kind: str,
    seconds: float,
    *,
    native: bool = False,
) -> Profile:
    """Profile ranks for this time; raise UsageError where that is not possible."""
    check_duration(seconds)
    most_s = seconds + END_S[read_kind(kind)]
    with begin_profile(session, new_line, ranks, kind, native=native, most_s=most_s) as begun:
        begun.wait(seconds)
    return begun.end()


def _why_not(problems: Mapping[int, str]) -> str:
    reasons = group_pairs((reason, f"rank {rank}") for rank, reason in sorted(problems.items()))
    told = "; ".join(f"{name_some(who)}: {reason}" for reason, who in reasons.items())
    return f"no profile was taken: {told}. Choose other ranks with --ranks, or try again."
