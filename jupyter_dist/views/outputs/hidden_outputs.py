"""What ranks say that nobody wants to see now: counted, and where to find it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from jupyter_dist.model.hosts.rank import format_ranks, name_ranks
from jupyter_dist.protocol.messages import Output
from jupyter_dist.text.plurals import count_of


@dataclass
class HiddenOutputs:
    """Counts the lines and other outputs of ranks that are not shown."""

    _ranks: set[int] = field(default_factory=set)
    _lines: int = 0
    _others: int = 0

    def take(self, ranks: Collection[int], outputs: Sequence[Output]) -> None:
        """Count what each of these ranks said."""
        for output in outputs:
            is_text = output.kind in ("stdout", "stderr") and bool(output.text)
            is_other = output.kind in ("display", "value")
            if is_text:
                self._lines += len(ranks) * output.text.count("\n")
            if is_other:
                self._others += len(ranks)
            if is_text or is_other:
                self._ranks.update(ranks)

    @property
    def sentence(self) -> str:
        """Return how much it is and how to see it; empty when it is nothing."""
        if not self._ranks:
            return ""
        counts = ((self._lines, "line"), (self._others, "other output"))
        told = [count_of(count, noun) for count, noun in counts if count]
        ranks = sorted(self._ranks)
        where = f"%dist_output --ranks {format_ranks(ranks)} shows it"
        return f"{' and '.join(told) or 'output'} of {name_ranks(ranks)} not shown here; {where}"
