"""Ranks as threads that meet each other without a coordinator."""

import faulthandler
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from jupyter_dist.errors import CollectiveTimeout, PeerFailed

PATIENCE_S = 10.0


class FakeHouse:
    """Where the controls of several ranks meet."""

    def __init__(self) -> None:
        self.news = threading.Condition()
        self.brought: dict[tuple, dict[int, tuple[list[bytes], list[int]]]] = {}
        self.failed_rank: int | None = None
        self.claims: list[tuple[int, str]] = []
        """Who came with which claim."""

    def fail(self, rank: int) -> None:
        """Let everybody who waits for others give up: this rank raised."""
        with self.news:
            self.failed_rank = rank
            self.news.notify_all()


class FakeControl:
    """One rank's way to the others; claims of a meeting must be the same."""

    def __init__(self, rank: int, server: FakeHouse) -> None:
        self.rank = rank
        self.cell_id = "cell-1"
        self.collectives: list[dict[str, Any]] = []
        """What this rank asked for."""
        self._server = server
        self._counts: Counter = Counter()

    def meet(self, purpose, kind, ranks, frames=(), **asked):
        """Wait for all of `ranks`."""
        self.collectives.append({"purpose": purpose, "kind": kind, "ranks": ranks, **asked})
        self._counts[purpose, ranks] += 1
        key = (self.cell_id, purpose, ranks, self._counts[purpose, ranks], kind, asked["claim"])
        root = asked.get("root", -1)
        counts = asked.get("frame_counts") or []
        server = self._server
        with server.news:
            server.claims.append((self.rank, asked["claim"]))
            there = server.brought.setdefault(key, {})
            there[self.rank] = ([bytes(frame) for frame in frames], list(counts))
            server.news.notify_all()
            is_over = server.news.wait_for(
                lambda: len(there) == len(ranks) or server.failed_rank is not None,
                min(PATIENCE_S, asked["timeout_s"]),
            )
            if len(there) < len(ranks) and not is_over:
                raise CollectiveTimeout(f"not all of {ranks} came to {key}")
            if len(there) < len(ranks):
                raise PeerFailed(server.failed_rank, "raised")
        return self._share(kind, ranks, root, there)

    def _share(self, kind, ranks, root, there):
        if kind == "all_gather" or (kind == "gather" and root == self.rank):
            return {rank: there[rank][0] for rank in ranks}
        if kind == "broadcast" and root != self.rank:
            return {root: there[root][0]}
        if kind == "scatter" and root != self.rank:
            frames, counts = there[root]
            at = ranks.index(self.rank)
            return {root: frames[sum(counts[:at]) : sum(counts[: at + 1])]}
        return {}

    def put(self, key: str, value: bytes) -> None:
        raise NotImplementedError

    def get(self, key: str, timeout_s: float) -> bytes:
        raise NotImplementedError


def on_ranks(size: int, call: Callable[[FakeControl], Any]) -> list[Any]:
    """Call it on each rank, a thread of its own; give results and exceptions in rank order."""
    server = FakeHouse()
    found: list[Any] = [None] * size

    def run(rank: int) -> None:
        try:
            found[rank] = call(FakeControl(rank, server))
        except Exception as error:  # noqa: BLE001  (the caller looks at it)
            found[rank] = error
            server.fail(rank)

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S + 5)
    if any(thread.is_alive() for thread in threads):
        faulthandler.dump_traceback()  # where each thread is
        raise AssertionError("a rank hangs")
    return found


def every(found: Sequence[Any]) -> Any:
    """Give what all ranks have found, after checking that it is the same."""
    errors = [one for one in found if isinstance(one, Exception)]
    if errors:
        raise errors[0]
    assert all(one == found[0] for one in found), found
    return found[0]
