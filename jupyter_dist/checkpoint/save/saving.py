"""Saving: all ranks agree what there is, write their parts at the same time, and commit them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from time import monotonic
from typing import Any, Literal, NamedTuple

import msgspec
import xxhash

from jupyter_dist.checkpoint.collective_step import together, together_as
from jupyter_dist.checkpoint.format.manifest import Manifest
from jupyter_dist.checkpoint.format.manifest_file import write_manifest
from jupyter_dist.checkpoint.rank_group import Progress, RankGroup
from jupyter_dist.checkpoint.save.contents import Contents
from jupyter_dist.checkpoint.save.manifest_making import (
    record_leaves,
    seem_same,
    settle_layouts,
)
from jupyter_dist.checkpoint.save.merging import Merged, Part, TreeReport, merge, share_out
from jupyter_dist.checkpoint.save.tree_delta import (
    Committed,
    Compared,
    find_differing,
    pack,
    pack_difference,
    pack_digests,
    unpack,
    unpack_difference,
)
from jupyter_dist.checkpoint.save.writing import Author, Written, write_parts
from jupyter_dist.checkpoint.storage.directory import prune, steps
from jupyter_dist.checkpoint.storage.part_cache import keep
from jupyter_dist.checkpoint.storage.save_target import Opening, Place
from jupyter_dist.errors import CheckpointError, CheckpointFailed, DistError, UsageError
from jupyter_dist.model.hosts.rank import name_rank
from jupyter_dist.model.ranks.user_errors import name_error
from jupyter_dist.text.lists import name_some

SENT_MANIFEST_BYTES = 200 << 20
"""More than that, to all ranks together, goes not over the coordinator."""
Describe = Callable[[str, int, str], Opening]


class SaveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What all ranks must ask for alike."""

    directory: str
    kind: Literal["tree", "variables"] = "tree"
    step: int | None = None
    keep_last: int | None = None
    marks: Mapping[str, int | None] = {}


class Saved(NamedTuple):
    """A checkpoint that is complete."""

    path: str
    step: int
    nbytes: int
    """Of all ranks together."""
    seconds: float
    """From the call on rank 0 until it was complete."""
    notes: tuple[str, ...] = ()
    """What went wrong beside it, on this rank."""


class _OpeningTold(msgspec.Struct, frozen=True):
    wish: SaveOptions
    opening: Opening | None
    first: bytes
    """The tree of rank 0, packed."""


class Save:
    """One checkpoint on its way; the same steps on all ranks.

    `open` and `complete` raise on all ranks what went wrong on one, and leave nothing behind.
    """

    def __init__(
        self, rank_group: RankGroup, wish: SaveOptions, timeout_s: float, cache: str | None = None
    ) -> None:
        self._rank_group = rank_group
        self._wish = wish
        self._contents: Contents | None = None
        self._timeout_s = timeout_s
        self._cache = cache
        self._start_s = monotonic()
        self._place = Place(rank_group, wish.directory)
        self._merged = Merged((), ())
        self._opening: Opening | None = None
        self._written = Written((), ())

    @property
    def opening(self) -> Opening:
        """What rank 0 has decided; after `open`."""
        assert self._opening is not None
        return self._opening

    @property
    def contents(self) -> Contents:
        """What this rank holds; after `open`."""
        assert self._contents is not None
        return self._contents

    def use(self, rank_group: RankGroup) -> None:
        """Go on with another way to the same ranks."""
        self._rank_group = rank_group

    @contextmanager
    def cleaning_up(self) -> Iterator[None]:
        """Leave nothing behind if the block raises: no files, and no memory held by the error."""
        try:
            with self._place.discarding():
                yield
        except BaseException:
            if self._contents is not None:
                self._contents.release()
            raise

    def open(self, take: Callable[[], Contents], describe: Describe) -> None:
        """Agree on directory, step and tree.

        `take` gives what this rank has; `describe` is for rank 0, given id, step and the name of
        the place where all write.
        """
        step = self._find_step()

        def tell() -> _OpeningTold:
            contents = self._contents = take()
            if self._rank_group.rank > 0:
                return _OpeningTold(self._wish, None, b"")
            opening = self._place.open(step, describe)
            return _OpeningTold(self._wish, opening, pack(contents.told))

        with self.cleaning_up():
            heard = together_as(
                _OpeningTold, self._rank_group, "checkpoint.save", self._timeout_s, tell
            )
            _check_wishes([each.wish for each in heard])
            self._opening = heard[0].opening
            first = unpack(heard[0].first, TreeReport)
            answers = self._step("leaves", lambda: pack_difference(self.contents.told, first))
            self._merged = merge([unpack_difference(answer, first) for answer in answers])

    def _find_step(self) -> int:
        """Return the step that was asked for, else the next one on any host."""
        topic = "checkpoint.save, which step"
        place = self._place
        steps = together_as(int, self._rank_group, topic, self._timeout_s, place.next_step)
        return max(steps) if self._wish.step is None else self._wish.step

    def complete(self, begin: Callable[[int], Progress]) -> Saved:
        """Write and commit; `begin` is told how many bytes this rank will write."""
        with self.cleaning_up():
            self._compare()
            parts = share_out(self._merged.leaves, self._rank_group.world_size)
            written = self._write(parts[self._rank_group.rank], begin)
            committed = self._commit(written)
        path, step = str(self._place.final_path), self.opening.step
        notes = self._finish(committed)
        return Saved(path, step, committed.nbytes, committed.seconds, notes)

    def give_up(self, error: BaseException) -> None:
        """Let all others fail at once who go on with what was opened: this rank does not."""

        def fail() -> None:
            how = name_error(error)
            raise CheckpointFailed(f"step {self.opening.step} was given up ({how})")

        if self._opening is not None:  # else nobody can have gone on
            with suppress(DistError), self.cleaning_up():
                self._step("compare", fail)

    def _topic(self, step: str) -> str:
        return f"checkpoint.save(step={self.opening.step}), {step}, {self.opening.id[:8]}"

    def _step(self, name: str, work: Callable[[], bytes | None]) -> list[bytes]:
        return together(self._rank_group, self._topic(name), self._timeout_s, work)

    def _compare(self) -> None:
        """Find out who sees the same directory, and which leaves are the same on all ranks."""
        candidates = [leaf for leaf in self._merged.leaves if seem_same(leaf)]
        rank = self._rank_group.rank
        own = b""

        def compare() -> Compared:
            nonlocal own
            is_seen = self._place.look(self.opening)
            own = pack_digests([self.contents.digest(leaf.numbers[rank]) for leaf in candidates])
            summary = xxhash.xxh3_128_digest(own)
            return Compared(is_seen, summary, b"" if rank else own)

        topic = self._topic("compare")
        heard = together_as(Compared, self._rank_group, topic, self._timeout_s, compare)
        self._place.take_in([each.is_seen for each in heard])
        if len({each.summary for each in heard}) > 1:
            differing = self._step(
                "differences",
                lambda: pack(find_differing(own, heard[0].first, len(candidates))),
            )
            numbers = {number for answer in differing for number in unpack(answer, list[int])}
            self._merged = settle_layouts(self._merged, numbers)

    def _write(self, parts: list[Part], begin: Callable[[int], Progress]) -> list[bytes]:
        """Write the parts of this rank; on rank 0 give what all have written, packed."""
        rank_group = self._rank_group
        rank, hosts = rank_group.rank, rank_group.hosts
        author = Author(self._place.staging_path, rank, hosts[rank])

        def write() -> None:
            progress = begin(sum(part.nbytes for part in parts))
            try:
                self._written = write_parts(
                    author, self.contents, self._merged, parts, progress.add
                )
            finally:
                progress.close()

        self._step("write", write)
        self.contents.release()
        return rank_group.collect(self._topic("written"), pack(self._written), self._timeout_s)

    def _make_manifest(self, packed: Sequence[bytes]) -> Manifest:
        rank_group, opening = self._rank_group, self.opening
        written = [unpack(each, Written) for each in packed]
        return Manifest(
            id=opening.id,
            step=opening.step,
            kind=self._wish.kind,
            saved_at=opening.saved_at,
            cluster=rank_group.cluster,
            world_size=rank_group.world_size,
            generation=rank_group.generation,
            hosts=rank_group.hosts,
            is_shared=self._place.is_shared,
            structure=self._merged.structures,
            leaves=record_leaves(self._merged, written),
            files=tuple(file for each in written for file in each.files),
            versions=opening.versions,
            cells=opening.cells,
            marks=dict(self._wish.marks),
        )

    def _commit(self, written: Sequence[bytes]) -> Committed:
        """Make it a checkpoint: on hosts of their own first, then where rank 0 is."""
        if not self._place.is_shared:
            self._step("publish", self._place.publish)

        def commit() -> bytes:
            if self._rank_group.rank > 0:
                return b""
            manifest = self._make_manifest(written)
            sent = b"" if self._place.is_shared else pack(manifest)
            if len(sent) * self._rank_group.world_size > SENT_MANIFEST_BYTES:
                sent = b""
            self._place.commit(manifest)
            seconds = monotonic() - self._start_s
            return msgspec.msgpack.encode(Committed(seconds, manifest.nbytes, sent))

        try:
            told = self._step("commit", commit)
        except CheckpointError:
            # Rank 0 says that there is none. After any other error it may be there.
            self._place.withdraw()
            raise
        return msgspec.msgpack.decode(told[0], type=Committed)

    def _finish(self, committed: Committed) -> tuple[str, ...]:
        """Copy the manifest, fill the cache, remove what is old; problems there are notes."""
        step = self.opening.step
        steps: tuple[tuple[str, Callable[[], None]], ...] = (
            ("its manifest could not be copied", partial(self._copy_manifest, committed)),
            ("the cache does not have it", self._fill_cache),
            ("older checkpoints could not be removed", partial(self._prune, step)),
        )
        notes = []
        for what, work in steps:
            try:
                work()
            except CheckpointError as error:
                notes.append(f"step {step} is saved, but {what}: {error}")
        return (*notes, *self._note_later(step))

    def _copy_manifest(self, committed: Committed) -> None:
        if not self._place.leads_host:
            return
        if not committed.manifest:
            raise CheckpointFailed("it is too large to be sent. A restore needs the host of rank 0")
        write_manifest(self._place.final_path, unpack(committed.manifest, Manifest))

    def _fill_cache(self) -> None:
        if self._cache is not None:
            paths = [self._place.final_path / file.name for file in self._written.files]
            keep(self._cache, self.opening.id, paths)

    def _prune(self, step: int) -> None:
        keeps = self._wish.keep_last
        if keeps is not None and (self._rank_group.rank == 0 or self._place.leads_host):
            prune(self._place.final_path.parent, keeps, step)

    def _note_later(self, step: int) -> list[str]:
        """Say that a run which goes on from an older step does not remove what came after it."""
        if self._wish.keep_last is None or self._rank_group.rank != 0:
            return []
        later: list[str] = []
        with suppress(CheckpointError):
            later += [str(one) for one, _ in steps(self._place.final_path.parent) if one > step]
        if not later:
            return []
        note = (
            f"step {step} is saved, but later ones are there, which keep_last leaves: "
            f"{name_some(later)}. A restore takes the latest unless it is given a step; remove "
            "those of a run that is given up."
        )
        return [note]


def _check_wishes(wishes: list[SaveOptions]) -> None:
    """Raise UsageError when ranks do not mean the same checkpoint."""
    for rank, wish in enumerate(wishes):
        if wish != wishes[0]:
            name, mine, others = next(
                (field, getattr(wishes[0], field), getattr(wish, field))
                for field in SaveOptions.__struct_fields__
                if getattr(wishes[0], field) != getattr(wish, field)
            )
            raise UsageError(
                f"checkpoint.save got {name}={mine!r} on rank 0, but {others!r} on "
                f"{name_rank(rank)}. Give all ranks the same."
            )


def check_options(step: Any, keep_last: Any, timeout_s: Any) -> None:
    """Raise UsageError for options that cannot be meant."""
    if step is not None and not (type(step) is int and step >= 0):
        raise UsageError(f"step={step!r}. Accepted: a whole number from 0 on, or None.")
    if keep_last is not None and not (type(keep_last) is int and keep_last >= 1):
        raise UsageError(f"keep_last={keep_last!r}. Accepted: a whole number from 1 on, or None.")
    if timeout_s is not None and not timeout_s > 0:
        raise UsageError(f"timeout_s={timeout_s!r}. Accepted: more than 0 s, or None.")
