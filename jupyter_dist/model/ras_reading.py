"""Reads what NCCL's RAS says: JSON (NCCL 2.28.7 and later), or its text for people. Pure."""

import msgspec

from jupyter_dist.model.ras import RasCommunicator, RasMissing, RasRank, RasReport
from jupyter_dist.model.ras_text import read_text


def read_ras(said: str) -> RasReport | None:
    """Read a whole answer to STATUS or VERBOSE STATUS; None when it is neither form."""
    said = said.strip()
    return _read_json(said) if said.startswith("{") else read_text(said)


class _RankStatus(msgspec.Struct):
    init_state: int = 0
    async_error: int = 0
    finalize_called: bool = False
    destroy_flag: bool = False
    abort_flag: bool = False


class _Rank(msgspec.Struct):
    rank: int
    host: str = ""
    pid: int = 0
    status: _RankStatus = msgspec.field(default_factory=_RankStatus)
    collective_counts: dict[str, int] = {}


class _MissingStatus(msgspec.Struct):
    unresponsive: bool = True
    considered_dead: bool = False


class _Missing(msgspec.Struct):
    rank: int
    host: str = ""
    pid: int = 0
    status: _MissingStatus = msgspec.field(default_factory=_MissingStatus)


class _Communicator(msgspec.Struct):
    hash: str
    size: int
    secondary_hash: str = ""
    ranks: tuple[_Rank, ...] = ()
    missing_ranks: tuple[_Missing, ...] = ()


class _Report(msgspec.Struct):
    communicators: tuple[_Communicator, ...]
    nccl_version: str = ""


def _read_json(said: str) -> RasReport | None:
    try:
        report = msgspec.json.decode(said, type=_Report)
    except msgspec.MsgspecError:
        return None
    return RasReport(
        report.nccl_version,
        tuple(
            RasCommunicator(
                key=f"{each.hash} {each.secondary_hash}".strip(),
                size=each.size,
                ranks=tuple(map(_rank_of, each.ranks)),
                missing=tuple(map(_missing_of, each.missing_ranks)),
            )
            for each in report.communicators
        ),
    )


def _rank_of(told: _Rank) -> RasRank:
    status = told.status
    return RasRank(
        rank=told.rank,
        host=told.host,
        pid=max(told.pid, 0),
        init_state=status.init_state,
        async_error=status.async_error,
        is_leaving=status.finalize_called or (status.destroy_flag and not status.abort_flag),
        is_aborted=status.abort_flag,
        counts=told.collective_counts,
    )


def _missing_of(told: _Missing) -> RasMissing:
    return RasMissing(
        rank=told.rank,
        host=told.host,
        pid=max(told.pid, 0),
        is_silent=told.status.unresponsive,
        is_dead=told.status.considered_dead,
    )
