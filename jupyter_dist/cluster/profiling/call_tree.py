"""The calls of all ranks as one tree, with what each rank spends in each. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from jupyter_dist.cluster.profiling.rank_times import Doing, SampledPart
from jupyter_dist.model.ranks.stacks import Frame


class CallNode:
    """One call, with those that it makes."""

    def __init__(self, frame: Frame | None, count: int, doing: Doing | None = None) -> None:
        self.frame = frame
        """None: the root."""
        self.seconds = [0.0] * count
        """Of each rank, in the order of the tree's ranks."""
        self.doing = doing
        """What is done there; None: that differs further inside."""
        self.children: dict[Frame, CallNode] = {}

    @property
    def total_s(self) -> float:
        """Seconds of all ranks together."""
        return sum(self.seconds)

    def excess(self) -> tuple[int, float]:
        """Return whose time differs most from the median, as index, and by how many seconds."""
        usual = median(self.seconds)
        # Of two ranks both differ alike: the one that takes longer is worth a word.
        index = max(
            range(len(self.seconds)),
            key=lambda each: (round(abs(self.seconds[each] - usual), 9), self.seconds[each]),
        )
        return index, self.seconds[index] - usual

    def largest(self) -> Iterator["CallNode"]:
        """Yield the calls that it makes, the longest first."""
        yield from sorted(self.children.values(), key=lambda each: -each.total_s)


class CallTree:
    """All ranks, from the cells on down."""

    def __init__(self, samples: Mapping[int, Iterable[SampledPart]]) -> None:
        self.ranks: Sequence[int] = sorted(samples)
        self.root = CallNode(None, len(self.ranks))
        for index, rank in enumerate(self.ranks):
            for sample in samples[rank]:
                self._add(index, sample)

    def _add(self, index: int, sample: SampledPart) -> None:
        node, seconds = self.root, sample.seconds
        node.seconds[index] += seconds
        for depth, frame in enumerate(sample.stack, 1):
            is_last = depth == len(sample.stack)
            inner = node.children.get(frame)
            if inner is None:
                doing = sample.doing if is_last else None
                inner = node.children[frame] = CallNode(frame, len(self.ranks), doing)
            node = inner
            node.seconds[index] += seconds
