"""`cluster.vars`: variables of ranks as if they were here, fetched and sent when they are used.

    cluster.vars.x[2]           what x is on rank 2
    cluster.vars.x[2] = 5       put it there; cluster.vars.x = 5 puts it on every rank
    cluster.vars.w[0][:10]      of a large array only what is asked for travels
    cluster.vars.loss.gather()  the arrays or numbers of all ranks, stacked
    del cluster.vars.x          from every rank

Fetching waits until ranks are idle, as `pull` does; a look, as `repr` takes, does not.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import index
from typing import Any, Protocol

from jupyter_dist.cluster.spec.checks import Ranks
from jupyter_dist.cluster.variables.names_table import NamesTable
from jupyter_dist.cluster.variables.rank_table import write_rank_table
from jupyter_dist.cluster.variables.values_of_cells import MOST_BYTES
from jupyter_dist.errors import UsageError
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.model.ranks.variable_facts import NameInfo
from jupyter_dist.text.lists import group_pairs
from jupyter_dist.text.sizes import tell_size

FETCHED_WHOLE_BYTES = 1 << 20
"""A larger array comes as a RemoteArray."""


class Cluster(Protocol):
    """What a cluster does for its variables; see Session."""

    @property
    def world_size(self) -> int: ...  # noqa: D102
    def who(self, patterns: str = ..., ranks: Ranks = ...) -> NamesTable: ...  # noqa: D102
    def run(self, code: str, ranks: Ranks = ...) -> Any: ...  # noqa: D102
    def push(self, objects: Mapping[str, object], ranks: Ranks = ...) -> None: ...  # noqa: D102
    def pull(  # noqa: D102
        self, name: str, ranks: Ranks = ..., *, most_bytes: int = ...
    ) -> dict[int, Any]: ...


class Variables:
    """The variables of all ranks, as attributes: `cluster.vars.x`."""

    _cluster: Cluster

    def __init__(self, cluster: Cluster) -> None:
        object.__setattr__(self, "_cluster", cluster)

    def __getattr__(self, name: str) -> "Variable":
        if name.startswith("_"):  # what IPython and copy look for
            raise AttributeError(name)
        return Variable(self._cluster, name)

    def __setattr__(self, name: str, value: object) -> None:
        self._cluster.push({name: value})

    def __delattr__(self, name: str) -> None:
        _delete(self._cluster, name)

    def __dir__(self) -> list[str]:
        return sorted(self._cluster.who().infos)

    def __repr__(self) -> str:
        return str(self._cluster.who())


class Variable(Sequence[Any]):
    """One variable on every rank: item r is what it is on rank r."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name

    def __len__(self) -> int:
        return self._cluster.world_size

    def __getitem__(self, rank: Any) -> Any:
        """Return what it is on a rank, and of an array over 1 MiB a RemoteArray.

        Raises UsageError for what is no rank, and TransferError naming a rank that has no such
        variable, cannot send it, or has more than 1 GiB there.
        """
        wanted = self._read_rank(rank)
        seen = self._cluster.who(self._name, wanted).infos.get(self._name, {}).get(wanted)
        if seen is not None and seen.dtype and seen.nbytes > FETCHED_WHOLE_BYTES:
            return RemoteArray(self._cluster, self._name, wanted, seen)
        return self._cluster.pull(self._name, wanted, most_bytes=MOST_BYTES)[wanted]

    def __setitem__(self, rank: Any, value: object) -> None:
        """Put an object under this name on one rank; raises as `push` does."""
        self._cluster.push({self._name: value}, self._read_rank(rank))

    def __delitem__(self, rank: Any) -> None:
        """Delete it on one rank."""
        _delete(self._cluster, self._name, self._read_rank(rank))

    def __iter__(self) -> Iterator[Any]:
        """Fetch it from all ranks at once; yield in their order."""
        found = self._cluster.pull(self._name, most_bytes=MOST_BYTES)
        return (found[rank] for rank in sorted(found))

    def gather(self) -> Any:
        """Return the numbers or arrays of all ranks as one NumPy array, ranks first.

        Raises UsageError naming ranks with other shapes, or with what is no array.
        """
        import numpy as np

        found = {rank: np.asarray(value) for rank, value in enumerate(self)}
        shapes = group_pairs((array.shape, rank) for rank, array in found.items())
        if any(array.dtype == object for array in found.values()):
            raise UsageError(
                f"{self._name} cannot be stacked: it is no array of numbers. "
                f"list(cluster.vars.{self._name}) has what it is on each rank."
            )
        if len(shapes) > 1:
            told = ", ".join(f"{shape} on {name_ranks(ranks)}" for shape, ranks in shapes.items())
            raise UsageError(
                f"{self._name} cannot be stacked, its shape differs: {told}. "
                f"list(cluster.vars.{self._name}) has what it is on each rank."
            )
        return np.stack([found[rank] for rank in sorted(found)])

    def __repr__(self) -> str:
        found = self._cluster.who(self._name)
        return write_rank_table(self._name, found)

    def _read_rank(self, rank: Any) -> int:
        world_size = self._cluster.world_size
        try:
            wanted = index(rank)
        except TypeError:
            wanted = -1
        if not 0 <= wanted < world_size:
            raise UsageError(
                f"cluster.vars.{self._name}[{rank!r}]: {rank!r} is no rank. Accepted: "
                f"0-{world_size - 1}; a part of an array is {self._name}[RANK][PART]."
            )
        return wanted


class RemoteArray:
    """A large array of one rank; indexed, only that part of it travels."""

    def __init__(self, cluster: Cluster, name: str, rank: int, info: NameInfo) -> None:
        self._cluster = cluster
        self._name = name
        self._rank = rank
        self._info = info

    def __repr__(self) -> str:
        info = self._info
        place = f" on {info.device}" if info.device else ""
        return (
            f"<{self._name} of rank {self._rank}: {info.type_name} {info.shape} {info.dtype}"
            f"{place}, {tell_size(info.nbytes)}; [...] fetches a part, .fetch() all of it>"
        )

    def __getitem__(self, key: Any) -> Any:
        """Return a part, made on the rank: numbers, slices, `...` and None, as arrays take them."""
        return self._take(f"{self._name}[{_write_key(key)}]")

    def fetch(self) -> Any:
        """Return the whole array; raises TransferError for one over 1 GiB."""
        return self._take(self._name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return the whole array as one of NumPy."""
        del copy  # it is always one
        import numpy as np

        return np.asarray(self.fetch(), dtype=dtype)

    def _take(self, expression: str) -> Any:
        return self._cluster.pull(expression, self._rank, most_bytes=MOST_BYTES)[self._rank]


def _delete(cluster: Cluster, name: str, ranks: Ranks = None) -> None:
    """Delete a variable by a cell; raises what the cell raises."""
    cluster.run(f"del {name}", ranks).raise_first()


def _write_key(key: Any) -> str:
    """Write an index as source; raises UsageError for what a rank could not read."""
    if isinstance(key, tuple):
        inside = ", ".join(map(_write_key, key))
        return f"{inside}," if len(key) == 1 else inside or "()"
    if isinstance(key, slice):
        start, stop, step = (
            "" if end is None else _write_key(end) for end in (key.start, key.stop, key.step)
        )
        return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"
    if key is None or key is Ellipsis:
        return "None" if key is None else "..."
    try:
        return str(index(key))
    except TypeError:
        raise UsageError(
            f"a rank cannot be asked for the part [{key!r}]. Accepted: numbers, slices, ... and "
            "None; for others pull an expression, as cluster.pull('w[mask]', 0)."
        ) from None
