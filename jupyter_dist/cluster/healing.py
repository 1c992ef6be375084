"""Lost ranks: replace them, or go on without; the others keep their processes and their names."""

import msgspec

from jupyter_dist.cluster.fenced import OnStage, ask_at_fence
from jupyter_dist.cluster.line import Line
from jupyter_dist.model.rank import format_ranks, name_ranks
from jupyter_dist.protocol.messages import HealRanks, RanksHealed, ShrinkCluster, Shrunk

_MOST_NAMES = 12


class Healed(msgspec.Struct, frozen=True):
    """What came of healing; `str()` says it in a few lines."""

    generation: int
    replaced: dict[int, str]
    """New ranks, with the host that each is on now."""
    replayed: tuple[str, ...]
    """Labels of the setup cells that they have run."""
    problems: tuple[str, ...]
    """What did not go well in setup cells, one sentence each."""
    missing: dict[str, tuple[int, ...]]
    """Names that other ranks have, with the new ranks that lack them."""
    notes: tuple[str, ...] = ()
    """What frameworks have formed anew, and which variables belong to what was before."""

    def __str__(self) -> str:
        by_host: dict[str, list[int]] = {}
        for rank, host in self.replaced.items():
            by_host.setdefault(host, []).append(rank)
        where = "; ".join(f"{name_ranks(ranks)} on {host}" for host, ranks in by_host.items())
        lines = [f"replaced {where}; all ranks are in generation {self.generation}"]
        if self.replayed:
            lines.append(f"ran {', '.join(self.replayed)} there (%%spmd --setup)")
        lines += self.problems
        return "\n".join([*lines, *self.describe_missing(), *self.notes])

    def describe_missing(self) -> list[str]:
        """Say which names which ranks lack, those that lack the same together."""
        by_ranks: dict[tuple[int, ...], list[str]] = {}
        for name, ranks in self.missing.items():
            by_ranks.setdefault(ranks, []).append(name)
        lines = []
        for ranks, names in by_ranks.items():
            more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
            verb = "lacks" if len(ranks) == 1 else "lack"
            lines.append(f"{name_ranks(ranks)} {verb} {', '.join(names[:_MOST_NAMES])}{more}")
        if lines:
            lacking = {rank for ranks in self.missing.values() for rank in ranks}
            lines.append(
                f"make them there with %%spmd --ranks {format_ranks(lacking)}, with %dist_push, or "
                "with comm.broadcast; cells marked %%spmd --setup run by themselves"
            )
        return lines


class Shrunken(msgspec.Struct, frozen=True):
    """What came of shrinking; `str()` says it in one line."""

    generation: int
    world_size: int
    renumbered: dict[int, int]
    """The new number of each rank, by its old one."""
    notes: tuple[str, ...] = ()
    """What frameworks have formed anew, and which variables belong to what was before."""

    def __str__(self) -> str:
        moved = [f"{old} is {new}" for old, new in self.renumbered.items() if old != new]
        numbers = f"; of the old numbers {', '.join(moved)} now" if moved else ""
        has = f"the cluster has {name_ranks(range(self.world_size))} in generation"
        return "\n".join([f"{has} {self.generation}{numbers}", *self.notes])


def heal_ranks(line: Line, ranks: tuple[int, ...] | None, on_stage: OnStage | None) -> Healed:
    """Replace these ranks (None: those that are lost); raises UsageError and HealFailed."""
    request = HealRanks(line.new_request_id(), ranks)
    answer = ask_at_fence(line, request, RanksHealed, on_stage)
    return Healed(
        answer.generation,
        answer.replaced,
        answer.replayed,
        answer.problems,
        answer.missing,
        answer.notes,
    )


def shrink_cluster(line: Line, on_stage: OnStage | None) -> Shrunken:
    """Go on without the lost ranks; raises UsageError and HealFailed."""
    request = ShrinkCluster(line.new_request_id())
    answer = ask_at_fence(line, request, Shrunk, on_stage)
    return Shrunken(answer.generation, answer.world_size, answer.renumbered, answer.notes)
