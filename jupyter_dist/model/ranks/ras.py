"""What NCCL's RAS tells of its communicators, and the sentence that comes of it. Pure.

RAS is the thread in every process with NCCL (2.24 and later) that knows which collectives each rank
has launched; `probe/nccl_ras.py` reads what it says.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.text.plurals import count_of, fit

IN_PROGRESS = 7
"""ncclInProgress: neither an error nor the end."""
ERRORS = {
    1: "unhandled CUDA error",
    2: "system error",
    3: "internal error",
    4: "invalid argument",
    5: "invalid usage",
    6: "remote process error",
    8: "timeout",
}
"""By ncclResult_t."""
_TOO_OLD = "what NCCL itself has counted is read from NCCL 2.28.7 on"
_MOST_FACTS = 3
_MOST_COUNTS = 4
"""Of more different counts only the ends are told."""


class RasRank(msgspec.Struct, frozen=True, kw_only=True):
    """What one rank has told of a communicator that it is in."""

    rank: int
    """In the communicator."""
    host: str = ""
    """An address of its host, that of the interface NCCL meets over; empty: not told."""
    pid: int = 0
    """0: not told."""
    init_state: int = 0
    """ncclResult_t of its forming."""
    async_error: int = 0
    """ncclResult_t of what went wrong later."""
    is_leaving: bool = False
    """It has begun to finalize or destroy the communicator."""
    is_aborted: bool = False
    counts: dict[str, int] = {}
    """How often it has launched which collective."""


class RasMissing(msgspec.Struct, frozen=True, kw_only=True):
    """A rank of a communicator that has told nothing about it."""

    rank: int
    host: str = ""
    pid: int = 0
    is_silent: bool = True
    """Its process gave no answer; else it says that it is not in this communicator."""
    is_dead: bool = False
    """NCCL has not reached it for a minute, and has given it up."""


class RasCommunicator(msgspec.Struct, frozen=True, kw_only=True):
    """One communicator of NCCL, as its ranks have told."""

    key: str
    """The same in every answer."""
    size: int
    ranks: tuple[RasRank, ...] = ()
    missing: tuple[RasMissing, ...] = ()


class RasReport(msgspec.Struct, frozen=True):
    """One answer of RAS: all communicators of the processes that know each other."""

    version: str = ""
    """NCCL's."""
    communicators: tuple[RasCommunicator, ...] = ()
    is_too_old: bool = False
    """This NCCL has RAS, but does not speak JSON."""


def merge_reports(reports: Iterable[RasReport]) -> RasReport:
    """Put answers of several processes together; what two of them tell of counts once."""
    version, found, is_too_old = "", dict[str, RasCommunicator](), False
    for report in reports:
        version = version or report.version
        is_too_old = is_too_old or report.is_too_old
        for communicator in report.communicators:
            found.setdefault(communicator.key, communicator)
    return RasReport(version, tuple(found.values()), is_too_old)


def explain_ras(report: RasReport, rank_of: Mapping[tuple[str, int], int]) -> str:
    """Say in one sentence what is odd, or why that is not known; empty when nothing is.

    `rank_of` has the cluster's ranks by an address of their host and their pid; communicators of
    other processes do not count.
    """
    facts: list[str] = []
    for communicator in report.communicators:
        names = _Names(communicator, rank_of)
        if names.is_ours:
            for tell in (_tell_errors, _tell_missing, _tell_end, _tell_init, _tell_counts):
                facts += tell(communicator, names)
    facts = list(dict.fromkeys(facts))
    if not facts:
        return _TOO_OLD if report.is_too_old else ""
    more = [f"{len(facts) - _MOST_FACTS} more like this"] if len(facts) > _MOST_FACTS else []
    return f"NCCL says: {'; '.join([*facts[:_MOST_FACTS], *more])}"


class _Names:
    """What the ranks of one communicator are called in the cluster."""

    def __init__(
        self, communicator: RasCommunicator, rank_of: Mapping[tuple[str, int], int]
    ) -> None:
        members: list[RasRank | RasMissing] = [*communicator.ranks, *communicator.missing]
        told = [member for member in members if member.host and member.pid > 0]
        self._ranks = {each.rank: rank_of.get((each.host, each.pid)) for each in told}
        is_whole = communicator.size == len(set(rank_of.values()))
        if is_whole and all(number == rank for number, rank in self._ranks.items()):
            # Everybody is in it, in the cluster's order, as far as NCCL has told who they are.
            self._ranks = {number: number for number in range(communicator.size)}
        self.is_ours = any(rank is not None for rank in self._ranks.values())

    def name(self, numbers: Sequence[int]) -> str:
        """Name members, given by their numbers in the communicator."""
        known = {rank for rank in map(self._ranks.get, numbers) if rank is not None}
        others = len(numbers) - len(known)
        if not known:
            return count_of(others, "rank")
        return f"{name_ranks(known)}{f' and {others} more' if others else ''}"

    def have(self, numbers: Sequence[int]) -> str:
        """Name them as the subject of a sentence with its auxiliary verb."""
        return f"{self.name(numbers)} {fit(numbers, 'has', 'have')}"

    def are(self, numbers: Sequence[int]) -> str:
        """Name them as the subject of a sentence with the verb to be."""
        return f"{self.name(numbers)} {fit(numbers, 'is', 'are')}"


def _tell_errors(communicator: RasCommunicator, names: _Names) -> list[str]:
    facts = []
    for error, numbers in _by_error({each.rank: each.init_state for each in communicator.ranks}):
        facts.append(f"{names.have(numbers)} not formed a communicator ({error})")
    for error, numbers in _by_error({each.rank: each.async_error for each in communicator.ranks}):
        facts.append(f"{names.have(numbers)} an error ({error})")
    return facts


def _by_error(states: Mapping[int, int]) -> list[tuple[str, list[int]]]:
    found: dict[int, list[int]] = {}
    for number, state in states.items():
        if state not in (0, IN_PROGRESS):
            found.setdefault(state, []).append(number)
    return [(ERRORS.get(state, "unknown error"), numbers) for state, numbers in found.items()]


def _tell_missing(communicator: RasCommunicator, names: _Names) -> list[str]:
    dead = [rank.rank for rank in communicator.missing if rank.is_dead]
    silent = [rank.rank for rank in communicator.missing if rank.is_silent and not rank.is_dead]
    facts = []
    if dead:
        facts.append(f"{names.have(dead)} been out of its reach for a minute")
    if silent:
        facts.append(f"{names.have(silent)} not answered it")
    return facts


def _tell_end(communicator: RasCommunicator, names: _Names) -> list[str]:
    """Tell of a communicator that some have aborted or left, and others have not."""
    aborted = [rank.rank for rank in communicator.ranks if rank.is_aborted]
    leaving = [rank.rank for rank in communicator.ranks if rank.is_leaving and not rank.is_aborted]
    away = [rank.rank for rank in communicator.missing if not rank.is_silent and not rank.is_dead]
    ended = {*aborted, *leaving, *away}
    staying = [rank.rank for rank in communicator.ranks if rank.rank not in ended]
    if not ended or not staying:
        return []
    told = []
    if aborted:
        told.append(f"{names.have(aborted)} aborted")
    if leaving:
        told.append(f"{names.are(leaving)} leaving")
    if away:
        told.append(f"{names.are(away)} not in")
    return [f"{', '.join(told)} a communicator that {names.are(staying)} in"]


def _tell_init(communicator: RasCommunicator, names: _Names) -> list[str]:
    waiting = [rank.rank for rank in communicator.ranks if rank.init_state == IN_PROGRESS]
    forming = f"still forming a communicator of {communicator.size}"
    return [f"{names.are(waiting)} {forming}"] if waiting else []


def _tell_counts(communicator: RasCommunicator, names: _Names) -> list[str]:
    """Tell of collectives that some have launched more often than others."""
    if any(rank.is_leaving or rank.is_aborted for rank in communicator.ranks):
        return []
    counts: dict[str, dict[int, list[int]]] = {}
    for rank in communicator.ranks:
        for operation, times in rank.counts.items():
            counts.setdefault(operation, {}).setdefault(times, []).append(rank.rank)
    return [
        _tell_times(operation, by_times, names)
        for operation, by_times in counts.items()
        if len(by_times) > 1
    ]


def _tell_times(operation: str, by_times: Mapping[int, Sequence[int]], names: _Names) -> str:
    """Return who has launched a collective how often, the most first."""
    most, *fewer = sorted(by_times, reverse=True)
    are_many = len(fewer) >= _MOST_COUNTS
    told = [f"{names.have(by_times[most])} launched {operation} {count_of(most, 'time')}"]
    if are_many:
        told.append("others fewer")
    told += [
        f"{names.name(by_times[times])} {count_of(times, 'time')}"
        for times in (fewer[-1:] if are_many else fewer)
    ]
    return ", ".join(told)
