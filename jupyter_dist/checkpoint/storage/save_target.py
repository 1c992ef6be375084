"""Where a checkpoint is being saved: the directory, as this rank and as others see it."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from jupyter_dist.checkpoint.file_errors import as_not_saved
from jupyter_dist.checkpoint.format.manifest import CellSource, Manifest
from jupyter_dist.checkpoint.rank_group import RankGroup
from jupyter_dist.checkpoint.storage.directory import next_step, step_name, sweep
from jupyter_dist.checkpoint.storage.staging import AlreadyMade, Staging, new_id
from jupyter_dist.checkpoint.values.tree import is_text
from jupyter_dist.errors import CheckpointFailed, CheckpointNotFound, UsageError

TOKEN = "token"  # noqa: S105  (no secret: who can read it sees the same storage)
"""File in which rank 0 has written the checkpoint's id, while it is being saved."""


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """What rank 0 has decided for all."""

    id: str
    step: int
    staging: str
    """Name of the directory in which all write."""
    saved_at: str
    versions: dict[str, str]
    cells: tuple[CellSource, ...]


class Place:
    """The way of this rank to the directory.

    Where it sees what rank 0 has made, it writes there. Otherwise the ranks of its host have a
    place of their own, which the first of them makes.
    """

    def __init__(self, rank_group: RankGroup, directory: str) -> None:
        self._rank_group = rank_group
        self._directory = Path(os.path.abspath(os.path.expanduser(directory)))
        self._staging: Staging | None = None
        self.sees_first = True
        """This rank sees the directory of rank 0."""
        self.is_shared = True
        """So do all."""
        self._staging_name = ""
        self._step = 0

    @property
    def staging_path(self) -> Path:
        """Where this rank writes."""
        return self._directory / self._staging_name

    @property
    def final_path(self) -> Path:
        """Where that will be in the end."""
        return self._directory / step_name(self._step)

    @property
    def leads_host(self) -> bool:
        """This rank takes care of a place of its host's own."""
        return self._staging is not None and not self.sees_first

    def next_step(self) -> int:
        """Return the step after the newest that this rank sees."""
        try:
            return next_step(self._directory)
        except CheckpointNotFound:
            return 0  # it is no directory: who writes there says so

    def open(self, step: int, describe: Callable[[str, int, str], Opening]) -> Opening:
        """Make the place of rank 0; `describe` is given id, step and the staging's name."""
        sweep(self._directory)
        checkpoint_id = new_id()
        self._staging = Staging(self._directory, step, checkpoint_id)
        self._staging.make()
        self._staging_name = self._staging.path.name
        opening = describe(checkpoint_id, step, self._staging_name)
        with as_not_saved(self._token_path):
            self._token_path.write_text(checkpoint_id, encoding="ascii")
        return opening

    def look(self, opening: Opening) -> bool:
        """Return whether this rank sees the directory of rank 0; if not, make one on its host."""
        self._staging_name, self._step = opening.staging, opening.step
        rank, hosts = self._rank_group.rank, self._rank_group.hosts
        if rank == 0:
            return True
        with as_not_saved(self._token_path):
            try:
                self.sees_first = self._token_path.read_text(encoding="ascii") == opening.id
            except (FileNotFoundError, NotADirectoryError):
                self.sees_first = False
        if not self.sees_first and hosts.index(hosts[rank]) == rank:
            sweep(self._directory)
            # Hosts that share storage with each other, not with rank 0: one of them takes care.
            self._staging = Staging(self._directory, opening.step, opening.id)
            try:
                self._staging.make()
            except AlreadyMade:
                self._staging = None
        return self.sees_first

    def take_in(self, seen: Sequence[bool]) -> None:
        """Learn who see the place of rank 0; CheckpointFailed if those of a host differ."""
        self.is_shared = all(seen)
        hosts = self._rank_group.hosts
        for rank, sees in enumerate(seen):
            first = hosts.index(hosts[rank])
            if sees != seen[first]:
                raise CheckpointFailed(
                    f"ranks {first} and {rank} of host {hosts[rank]} see different directories at "
                    f"{self._directory}. Save into one that all ranks of a host share."
                )

    def publish(self) -> None:
        """Return the place of this host its final name; it is no checkpoint without a manifest."""
        if self._staging is not None and self.leads_host:
            self._staging.publish()

    def withdraw(self) -> None:
        """Take back what `publish` has given its name: there will be no manifest."""
        if self._staging is not None and self.leads_host:
            self._staging.withdraw()

    def commit(self, manifest: Manifest) -> None:
        """Make it a checkpoint. For rank 0."""
        assert self._staging is not None
        with as_not_saved(self._token_path):
            self._token_path.unlink()
        self._staging.commit(manifest)

    @contextmanager
    def discarding(self) -> Iterator[None]:
        """Remove what this rank has made if the block raises."""
        try:
            yield
        except BaseException:
            if self._staging is not None:
                self._staging.discard()
            raise

    @property
    def _token_path(self) -> Path:
        return self.staging_path / TOKEN


def check_directory(directory: object) -> str:
    """Return a directory as text; raises UsageError for what is none."""
    try:
        text = os.fspath(directory)  # type: ignore[call-overload]
    except TypeError:
        text = b""
    if not isinstance(text, str) or not text or "\0" in text or not is_text(text):
        raise UsageError(
            f"directory={directory!r}. Accepted: the path of a directory, which is made if it is "
            "not there."
        )
    return text
