"""Says which ranks do not get done with a push or pull: since when, and where they are."""

from collections.abc import Collection
from collections.abc import Set as AbstractSet

from jupyter_dist.coordinator.interruption import find_places
from jupyter_dist.coordinator.questions import Answers, Questions
from jupyter_dist.model.rank import name_ranks
from jupyter_dist.model.text import without_seconds
from jupyter_dist.protocol.messages import ReadStacks

NAME_AFTER_S = 2.0
"""A rank that has an object for so long is named."""
ASK_AFTER_S = 0.8
"""It is asked before where it is, so that the first word has the place."""
ASK_INTERVAL_S = 3.0
ASK_TIMEOUT_S = 1.0
SAY_AGAIN_S = 10.0


class TransferWatch:
    """What is known of the ranks that pack or rebuild objects."""

    def __init__(self, doing: str, questions: Questions) -> None:
        """Take what ranks do: `packing` or `rebuilding`."""
        self.note = ""
        """Who is busy with it for long, as a sentence; empty: nobody."""
        self._doing = doing
        self._questions = questions
        self._since_s: dict[int, float] = {}
        self._places: dict[int, str] = {}
        self._is_asking = False
        self._next_ask_s = 0.0
        self._said = ""
        self._said_s = 0.0

    @property
    def begun(self) -> AbstractSet[int]:
        """Ranks that were sent their part."""
        return self._since_s.keys()

    def begin(self, rank: int, now_s: float) -> None:
        """Note that a rank was sent its part."""
        self._since_s[rank] = now_s

    def look(self, waiting: Collection[int], now_s: float) -> str:
        """Find who is late; return the note if it is to be told now."""
        busy_s = {
            rank: now_s - since_s
            for rank, since_s in sorted(self._since_s.items())
            if rank in waiting
        }
        self._ask([rank for rank in busy_s if busy_s[rank] >= ASK_AFTER_S], now_s)
        late = [rank for rank in busy_s if busy_s[rank] >= NAME_AFTER_S]
        self.note = "; ".join(self._describe(late, now_s))
        said = without_seconds(self.note)
        if not said or (said == self._said and now_s - self._said_s < SAY_AGAIN_S):
            return ""
        self._said, self._said_s = said, now_s
        return self.note

    def _describe(self, late: Collection[int], now_s: float) -> list[str]:
        by_place: dict[str, list[int]] = {}
        for rank in late:
            by_place.setdefault(self._places.get(rank, ""), []).append(rank)
        texts = []
        for place, ranks in by_place.items():
            verb, its = ("has", "it") if len(ranks) == 1 else ("have", "them")
            since_s = min(self._since_s[rank] for rank in ranks)
            texts.append(
                f"{name_ranks(ranks)} {verb} been {self._doing} it for {now_s - since_s:.0f} s"
                f"{place} (%dist_interrupt stops {its})"
            )
        return texts

    def _ask(self, late: Collection[int], now_s: float) -> None:
        if not late or self._is_asking or now_s < self._next_ask_s:
            return
        self._next_ask_s = now_s + ASK_INTERVAL_S
        self._is_asking = True
        self._questions.ask(tuple(late), ReadStacks(), ASK_TIMEOUT_S, now_s, self._take)

    def _take(self, answers: Answers) -> None:
        self._is_asking = False
        self._places |= find_places(answers)
