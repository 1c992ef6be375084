"""What the buttons of a view ask of a cluster, obeyed on threads of their own and answered by id.

A request is a mapping with `id`, `kind`, and `ranks` or `rank` where the kind takes them. It is
answered by replies: those that are not final tell how far it is. Nothing here waits for a cell,
for the thread that asked, or for another request.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from jupyter_dist.errors import DistError, UnknownRanks, UsageError
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.views.tables.stacks_table import stacks_text
from jupyter_dist.views.topology.rank_report import gather_rank_report

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster

KINDS = ("interrupt", "stacks", "explain", "heal", "stop", "rank")
MOST_KEPT = 64
"""Requests that are remembered with their replies, so that none is obeyed twice."""
MOST_RUNNING = 32
"""Requests at a time; an interrupt or a stop is never too many."""
MOST_CHARACTERS = 200_000
"""Of one section; the middle of a longer text is left out."""
_ID_CHARACTERS = 100
_ALWAYS = ("interrupt", "stop")

Reply = dict[str, Any]
Answer = Callable[[Reply], None]


class ViewCommands:
    """Obeys the requests of all views of one cluster, each once."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Obeyed] = OrderedDict()

    def take(self, request: Mapping[str, Any], answer: Answer) -> None:
        """Start what is asked for and return at once; `answer` is called on other threads.

        A request that has come before, by whatever way, is not obeyed again: its replies are
        given again. `answer` gets a reply that is not ok for everything that cannot be done.
        """
        request_id = request.get("id")
        if not isinstance(request_id, str) or not 0 < len(request_id) <= _ID_CHARACTERS:
            problem = f"request id {request_id!r} is not accepted: give a text of 1 to 100 letters."
            answer(_reply("", problem, is_ok=False))
            return
        with self._lock:
            known = self._kept.get(request_id)
            if known is None:
                is_too_much = request.get("kind") not in _ALWAYS and self._is_busy()
                obeyed = self._kept[request_id] = _Obeyed(request_id)
                self._forget_the_oldest()
        if known is not None:
            known.follow(answer)
            return
        obeyed.follow(answer)
        if is_too_much:
            obeyed.end(f"{MOST_RUNNING} requests wait for answers. Ask again in a moment.", False)
            return
        threading.Thread(
            target=self._obey,
            args=(dict(request), obeyed),
            name="jupyter-dist-view-request",
            daemon=True,
        ).start()

    def _is_busy(self) -> bool:
        return sum(not each.is_over for each in self._kept.values()) >= MOST_RUNNING

    def _forget_the_oldest(self) -> None:
        """Forget what ended first; what is still being done is never forgotten."""
        over = [request_id for request_id, each in self._kept.items() if each.is_over]
        for request_id in over[: max(0, len(self._kept) - MOST_KEPT)]:
            del self._kept[request_id]

    def _obey(self, request: Mapping[str, Any], obeyed: "_Obeyed") -> None:
        try:
            self._carry_out(request, obeyed)
        except DistError as problem:
            obeyed.end(str(problem), False)
        except Exception as bug:
            obeyed.end(f"something that we did not foresee: {type(bug).__name__}: {bug}", False)
            raise

    def _carry_out(self, request: Mapping[str, Any], obeyed: "_Obeyed") -> None:
        match request.get("kind"):
            case "interrupt":
                signalled = self._cluster.interrupt(_read_ranks(request))
                done = f"{name_ranks(signalled)} signalled" if signalled else "nothing was running"
                obeyed.end(done)
            case "stacks":
                obeyed.tell("asking the ranks…")
                stacks = self._cluster.stacks(_read_ranks(request))
                obeyed.end(
                    f"stacks of {name_ranks(stacks)}", sections={"stacks": stacks_text(stacks)}
                )
            case "explain":
                said = self._cluster.explain()
                # The words are those of the picture's own note: once is enough.
                obeyed.end("see below", sections={"explanation": said})
            case "heal":
                obeyed.tell("asking for new ranks…")
                obeyed.end(str(self._cluster.heal(_read_ranks(request), on_stage=obeyed.tell)))
            case "stop":
                obeyed.tell("the cluster is stopping…")
                self._cluster.stop()
                obeyed.end("the cluster has stopped")
            case "rank":
                self._report(self._read_rank(request), obeyed)
            case kind:
                raise UsageError(f"no command {kind!r} is known. Accepted: {', '.join(KINDS)}.")

    def _report(self, rank: int, obeyed: "_Obeyed") -> None:
        parts: dict[str, str] = {}
        for parts in gather_rank_report(self._cluster, rank):
            obeyed.tell(f"rank {rank}: reading…", parts)
        obeyed.end(f"rank {rank}", sections=parts)

    def _read_rank(self, request: Mapping[str, Any]) -> int:
        rank, world_size = request.get("rank"), self._cluster.world_size
        if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < world_size:
            raise UnknownRanks(str(rank), world_size)
        return rank


def _read_ranks(request: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Read the ranks that are meant; None: all, or for healing those that are lost."""
    ranks = request.get("ranks")
    if ranks is None:
        return None
    is_list = isinstance(ranks, list | tuple)
    if not is_list or not all(type(rank) is int for rank in ranks):
        raise UsageError(f"ranks {ranks!r} are not accepted: give a list of numbers, as [0, 2].")
    return tuple(ranks)


class _Obeyed:
    """A request with its replies, for everybody who has sent it."""

    def __init__(self, request_id: str) -> None:
        self._id = request_id
        self._lock = threading.RLock()
        self._replies: list[Reply] = []
        self._answers: list[Answer] = []
        self.is_over = False

    def follow(self, answer: Answer) -> None:
        with self._lock:
            if answer in self._answers:
                return  # the same way twice
            if not self.is_over:
                self._answers.append(answer)
            for reply in self._replies:
                answer(reply)

    def tell(self, text: str, sections: Mapping[str, str] | None = None) -> None:
        self._say(_reply(self._id, text, sections, is_final=False))

    def end(self, text: str, is_ok: bool = True, sections: Mapping[str, str] | None = None) -> None:
        self._say(_reply(self._id, text, sections, is_ok=is_ok))

    def _say(self, reply: Reply) -> None:
        with self._lock:
            # Sections are told again each time; only the newest are worth their memory.
            self._replies = [each for each in self._replies if "sections" not in each]
            self._replies.append(reply)
            self.is_over = bool(reply["is_final"])
            for answer in self._answers:
                answer(reply)
            if self.is_over:
                self._answers = []


def _reply(
    request_id: str,
    text: str,
    sections: Mapping[str, str] | None = None,
    *,
    is_ok: bool = True,
    is_final: bool = True,
) -> Reply:
    reply = {"kind": "reply", "id": request_id, "ok": is_ok, "text": text, "is_final": is_final}
    if sections is None:
        return reply
    told = [{"title": title, "text": _shorten(body)} for title, body in sections.items()]
    return {**reply, "sections": told}


def _shorten(text: str) -> str:
    left_out = len(text) - MOST_CHARACTERS
    if left_out <= 0:
        return text
    half = MOST_CHARACTERS // 2
    return f"{text[:half]}\n… {left_out:,} characters left out …\n{text[-half:]}"
