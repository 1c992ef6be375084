"""Restoring: all ranks agree on a checkpoint, read and verify it, and only then hand it over.

    look      what each rank sees of the directory         -> one checkpoint for all
    need      which pieces each rank needs of it           -> who reads what, who sends what
    read      each its own, every byte verified
    exchange  what some rank needs and cannot see, and what all need
    build     arrays, trees, objects
    load      objects take their state; variables get their values

A problem on one rank is one on all of them, and up to the last step nothing has changed. If an
object refuses its state in that step, others that have taken theirs by then keep it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from jupyter_dist.checkpoint.collective_step import together, together_as
from jupyter_dist.checkpoint.format.manifest import Manifest, Node, Piece
from jupyter_dist.checkpoint.format.part_file import Bytes
from jupyter_dist.checkpoint.format.structure import build, find_paths
from jupyter_dist.checkpoint.rank_group import RankGroup
from jupyter_dist.checkpoint.restore.discovery import agree
from jupyter_dist.checkpoint.restore.fetching import exchange, read_pieces
from jupyter_dist.checkpoint.restore.jax_placement import form_jax, has_formed_jax
from jupyter_dist.checkpoint.restore.placement import is_array_like, is_over_devices
from jupyter_dist.checkpoint.restore.read_plan import Plan, make_plan
from jupyter_dist.checkpoint.restore.restore_templates import (
    Load,
    check_likes,
    fill_in,
    find_likes,
    find_named_tuples,
)
from jupyter_dist.checkpoint.restore.restored_leaves import (
    NotLoaded,
    NotRestored,
    Taken,
    left_over,
    pieces_of,
    structure_of,
    take_leaf,
)
from jupyter_dist.checkpoint.values.blocks import Seat
from jupyter_dist.errors import CheckpointDamaged, CheckpointFailed
from jupyter_dist.model.hosts.rank import name_ranks, number_ranks
from jupyter_dist.text.lists import group_pairs, name_some

T = TypeVar("T")
TIMEOUT_S = 600.0
"""For each step of a restore, if nothing is said."""


class RestoreOptions(NamedTuple):
    """How a checkpoint shall be restored."""

    step: int | None = None
    """None: the newest that is whole."""
    like: Any = None
    """A tree of arrays, Shards or jax.ShapeDtypeStruct: restored arrays are laid out so."""
    objects: bool = False
    """Unpickle objects, which runs code that the checkpoint names."""
    cache: str | None = None
    """A directory on a local disk where parts may be, too."""
    timeout_s: float | None = None


class Restored(NamedTuple):
    """A checkpoint as this rank has it; all ranks have all of theirs."""

    tree: Any
    node: Node
    manifest: Manifest
    path: str
    nbytes: int
    """What all ranks have needed, each piece counted once."""
    seconds: float
    notes: tuple[str, ...]
    """What is not as it was saved, as sentences."""
    absent: tuple[NotRestored | NotLoaded, ...]
    """What stands in the tree of this rank for what it has not got."""


Likes = Mapping[str, Any]
"""Arrays and objects by path, see likes.find_likes."""


class Restore:
    """One checkpoint on its way back; the same steps on all ranks."""

    def __init__(self, rank_group: RankGroup, directory: str, asked: RestoreOptions) -> None:
        self._rank_group = rank_group
        self._asked = asked
        self._start_s = monotonic()
        self._timeout_s = TIMEOUT_S if asked.timeout_s is None else asked.timeout_s
        self._agreed = agree(rank_group, directory, asked.step, asked.cache, self._timeout_s)
        manifest = self._agreed.manifest
        self._labels = pieces_of(manifest.leaves)
        self._seat = Seat(rank_group.rank, rank_group.world_size, manifest.world_size)
        self._node: Node = None
        self._leaves: dict[int, Taken] = {}

    @property
    def manifest(self) -> Manifest:
        """Of the checkpoint that all ranks have agreed on."""
        return self._agreed.manifest

    def run(
        self, likes: Callable[[], Likes], select: Callable[[Node], Node] = lambda node: node
    ) -> Restored:
        """Read, exchange and build; `select` leaves of the tree what shall be restored."""
        self._form_jax(select)
        plan, nbytes = self._plan(likes, select)
        rank = self._rank_group.rank
        pieces = {piece for taken in self._leaves.values() for piece in taken.pieces}
        sent = sum(
            send.piece.nbytes for send in plan.sends if send.piece in pieces and send.sender != rank
        )
        progress = self._rank_group.progress(
            f"restore step {self.manifest.step}", plan.read_bytes(rank) + sent
        )
        try:
            got: dict[Piece, Bytes] = {}
            own, files, paths = plan.reads[rank], self.manifest.files, self._agreed.paths
            self._step(
                "read", lambda: got.update(read_pieces(own, files, paths, self._labels, progress))
            )
            spoilt = exchange(self._rank_group, plan, got, pieces, progress)
        finally:
            progress.close()
        return self._build(got, spoilt, nbytes)

    def finish(self, loads: Sequence[Load], put: Callable[[], None]) -> None:
        """Let objects take their state, then hand over the rest, on all ranks together."""

        def load() -> None:
            for one in loads:
                one()

        self._step("objects take their state", load)
        put()

    def _topic(self, step: str) -> str:
        return f"checkpoint.restore(step={self.manifest.step}), {step}"

    def _step(self, name: str, work: Callable[[], bytes | None]) -> list[bytes]:
        return together(self._rank_group, self._topic(name), self._timeout_s, work)

    def _step_as(self, kind: type[T], name: str, work: Callable[[], T]) -> list[T]:
        return together_as(kind, self._rank_group, self._topic(name), self._timeout_s, work)

    def _form_jax(self, select: Callable[[Node], Node]) -> None:
        """Form JAX where arrays lay over all its devices, unless `like` says where they go.

        It takes all ranks, which wait for each other in it: so nobody begins before all have said
        that they can.
        """
        manifest = self.manifest
        leaves = [
            manifest.leaves[number]
            for node in manifest.structure
            for number, _ in find_paths(select(node))
        ]
        is_needed = self._rank_group.world_size > 1 and self._asked.like is None
        if is_needed and any(
            is_over_devices(leaf.by_rank[0], manifest.world_size) for leaf in leaves
        ):
            told = self._step("is JAX formed", lambda: b"formed" if has_formed_jax() else b"")
            if any(told) and not all(told):
                lacking = [rank for rank, formed in enumerate(told) if not formed]
                raise CheckpointFailed(
                    f"JAX is formed across ranks, but not on {name_ranks(lacking)}, which arrays "
                    "over all devices need. Call jax.distributed.initialize() on all ranks of a "
                    "new cluster, or give `like`."
                )
            if not any(told):
                self._step("JAX across all ranks", form_jax)

    def _plan(self, likes: Callable[[], Likes], select: Callable[[Node], Node]) -> tuple[Plan, int]:
        """Return what this rank needs, and make the plan of what all need."""
        numbers = {piece: number for number, piece in enumerate(self._labels)}

        def need() -> list[int]:
            self._node = select(structure_of(self.manifest, self._rank_group.rank))
            self._take(likes())
            needed = {piece for taken in self._leaves.values() for piece in taken.pieces}
            return sorted(numbers[piece] for piece in needed)

        every = list(self._labels)
        wanted = [
            [every[number] for number in told]
            for told in self._step_as(list[int], "what each rank needs", need)
        ]
        nbytes = sum(piece.nbytes for piece in {piece for own in wanted for piece in own})
        return make_plan(wanted, self._agreed.seen), nbytes

    def _take(self, likes: Likes) -> None:
        paths = dict(find_paths(self._node))
        arrays = {path: like for path, like in likes.items() if is_array_like(like)}
        check_likes(arrays, list(paths.values()))
        for number, path in paths.items():
            leaf = self.manifest.leaves[number]
            like = arrays.get(path)
            self._leaves[number] = take_leaf(leaf, self._seat, like, objects=self._asked.objects)

    def _build(self, got: dict[Piece, Bytes], spoilt: Sequence[Piece], nbytes: int) -> Restored:
        values: dict[int, Any] = {}

        def make() -> float:
            if spoilt:
                names = ", ".join(sorted({self._labels[piece] for piece in spoilt}))
                raise CheckpointDamaged(
                    f"what another rank sent of {names} is not what was saved. Restore again."
                )
            for number, taken in self._leaves.items():
                values[number] = taken.build(got)
                for piece in taken.pieces:
                    del got[piece]  # what was cut again would else be here twice
            return monotonic() - self._start_s

        times = self._step_as(float, "build", make)
        return Restored(
            tree=build(self._node, values.__getitem__),
            node=self._node,
            manifest=self.manifest,
            path=str(self._agreed.path),
            nbytes=nbytes,
            seconds=max(times),
            notes=(*self._agreed.passed_over, *self._notes()),
            absent=tuple(
                value for value in values.values() if isinstance(value, NotRestored | NotLoaded)
            ),
        )

    def _notes(self) -> list[str]:
        """Return what ranks had that are no more; all ranks say the same."""
        saved, now = self.manifest.world_size, self._rank_group.world_size
        paths = [leaf.path for leaf in self.manifest.leaves if left_over(leaf, self._seat)]
        if not paths:
            return []
        gone = number_ranks(range(now, saved))
        had = f"what {gone} had of {name_some(paths)} was left in the checkpoint"
        return [f"{saved} ranks saved it and {now} restore it: {had}."]


def restore(rank_group: RankGroup, directory: str, asked: RestoreOptions) -> Restored:
    """Restore a tree on all ranks; objects in `asked.like` take their state.

    Raises on all ranks CheckpointNotFound, CheckpointDamaged, CheckpointTooNew or
    CheckpointFailed when something is wrong on one. Then nothing has changed, but if an object
    refused its state: others that had taken theirs by then keep it.
    """
    likes: dict[str, Any] = {}
    running = Restore(rank_group, directory, asked)

    def look() -> Likes:
        likes.update(find_likes(asked.like))
        return likes

    restored = running.run(look)
    types = find_named_tuples(restored.node, asked.like)
    tree, loads = fill_in(restored.node, restored.tree, likes, types)
    running.finish(loads, lambda: None)
    return restored._replace(tree=tree, notes=(*restored.notes, *_note_absent(restored)))


def _note_absent(restored: Restored) -> Iterator[str]:
    """Yield what this rank has not got of the tree, each reason with its paths."""
    absent = ((each.reason, each.path or "the tree") for each in restored.absent)
    for reason, paths in group_pairs(absent).items():
        yield f"{name_some(paths)} was not restored here: {reason}."
