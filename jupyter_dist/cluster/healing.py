"""Lost ranks: replace them, or go on without; the others keep their processes and their names."""

import msgspec

from jupyter_dist.model.hosts.rank import format_ranks, name_ranks
from jupyter_dist.text.lists import group_pairs
from jupyter_dist.text.plurals import fit

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
    """What frameworks have formed again, and which variables belong to what was before."""

    def __str__(self) -> str:
        by_host = group_pairs((host, rank) for rank, host in self.replaced.items())
        where = "; ".join(f"{name_ranks(ranks)} on {host}" for host, ranks in by_host.items())
        lines = [f"replaced {where}; all ranks are in generation {self.generation}"]
        if self.replayed:
            lines.append(f"ran {', '.join(self.replayed)} there (%%spmd --setup)")
        lines += self.problems
        return "\n".join([*lines, *self.describe_missing(), *self.notes])

    def describe_missing(self) -> list[str]:
        """Return which names which ranks lack, those that lack the same together."""
        by_ranks = group_pairs((ranks, name) for name, ranks in self.missing.items())
        lines = []
        for ranks, names in by_ranks.items():
            more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
            verb = fit(ranks, "lacks", "lack")
            lines.append(f"{name_ranks(ranks)} {verb} {', '.join(names[:_MOST_NAMES])}{more}")
        if lines:
            lacking = {rank for ranks in self.missing.values() for rank in ranks}
            lines.append(
                f"make them there with %%spmd --ranks {format_ranks(lacking)}, with %dist_push, or "
                "with comm.broadcast; cells marked %%spmd --setup run on their own"
            )
        return lines


class Shrunken(msgspec.Struct, frozen=True):
    """What came of shrinking; `str()` says it in one line."""

    generation: int
    world_size: int
    renumbered: dict[int, int]
    """The new number of each rank, by its old one."""
    notes: tuple[str, ...] = ()
    """What frameworks have formed again, and which variables belong to what was before."""

    def __str__(self) -> str:
        moved = [f"{old} is {new}" for old, new in self.renumbered.items() if old != new]
        numbers = f"; of the old numbers {', '.join(moved)} now" if moved else ""
        has = f"the cluster has {name_ranks(range(self.world_size))} in generation"
        return "\n".join([f"{has} {self.generation}{numbers}", *self.notes])
