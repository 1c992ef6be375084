"""Tells at once that a rank has failed, when others still run the cell and may do so for hours."""

from collections.abc import Collection, Mapping

from jupyter_dist.model.hosts.rank import name_rank, name_ranks
from jupyter_dist.text.plurals import fit

PATIENCE_S = 0.4
"""Others that leave a collective because of it, and so end the cell, are given so much time."""


class FailureNotice:
    """What has been told of one cell's failures."""

    def __init__(self) -> None:
        self._seen_s: dict[int, float] = {}
        self._told: set[int] = set()

    def tick(
        self,
        statuses: Mapping[int, str],
        errors: Mapping[int, str],
        running: Collection[int],
        now_s: float,
    ) -> str:
        """Return a sentence about ranks that have failed since the last one, or an empty one."""
        failed = {rank for rank, status in statuses.items() if status in ("raised", "lost")}
        for rank in failed:
            self._seen_s.setdefault(rank, now_s)
        news = sorted(failed - self._told)
        if not news or not running or now_s - self._seen_s[news[0]] < PATIENCE_S:
            return ""
        self._told |= set(news)
        first, *others = news
        verb = "raised" if statuses[first] == "raised" else "is lost:"
        error = errors.get(first, "")
        more = f" ({name_ranks(others)} failed too)" if others else ""
        verb_of_others = fit(running, "runs", "run")
        return (
            f"{name_rank(first)} {verb} {error}{more}; {name_ranks(running)} still "
            f"{verb_of_others} this cell (■ stops that)"
        )
