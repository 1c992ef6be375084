"""Copy code to every host: compare, send what is lacking, and put it into place everywhere.

Nothing changes on any host before everything has arrived on all of them.
"""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from time import monotonic

import msgspec

from jupyter_dist.cluster.code.code_files import CodeFiles, LocalFile, read_code
from jupyter_dist.cluster.connection.connection import Connection, raise_refusal
from jupyter_dist.cluster.result import SpmdResult
from jupyter_dist.cluster.transfer import OnMoved, ProgressThrottle
from jupyter_dist.errors import SyncFailed, UsageError
from jupyter_dist.model.transfer.code_manifest import (
    CHUNK_BYTES,
    Piece,
    pack_pieces,
    share_contents,
)
from jupyter_dist.protocol.commands import RELOAD
from jupyter_dist.protocol.messages import (
    CodeCommitted,
    CodeLacking,
    CodeTaken,
    CommitCode,
    SendCode,
    SyncCode,
)
from jupyter_dist.text.lists import name_some
from jupyter_dist.text.plurals import count_of, fit
from jupyter_dist.text.sizes import tell_size

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
WINDOW_CHUNKS = 8
"""So many chunks may be on their way at once."""
_UNCHANGED = "Nothing was changed on any host."
RELOAD_COMMAND = RELOAD.order(None, "%dist_sync --reload")


class SyncResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a sync; `str()` of it is one line."""

    paths: tuple[str, ...]
    hosts: tuple[str, ...]
    file_count: int
    size_bytes: int
    changed_count: int
    """Files that were new, or other ones, on some host."""
    removed_count: int
    duration_s: float
    stale: dict[str, tuple[str, ...]] = {}
    """Modules that ranks had imported before their file changed, with the hosts."""
    notes: tuple[str, ...] = ()
    """What the user should know: hosts that are lost, one sentence each."""
    reload: SpmdResult | None = None
    """What came of loading changed modules again, if that was asked for."""

    def __str__(self) -> str:
        size = tell_size(self.size_bytes)
        changes = [f"{count_of(self.changed_count, 'file')} changed"] if self.changed_count else []
        changes += [f"{self.removed_count} removed"] if self.removed_count else []
        return (
            f"copied {name_some(self.paths)} ({count_of(self.file_count, 'file')}, {size}) to "
            f"{count_of(len(self.hosts), 'host')} in {self.duration_s:.1f} s "
            f"({', '.join(changes) or 'nothing had changed'})"
        )

    def hint(self, command: str = "%dist_sync") -> str:
        """Return what to do about modules that ranks have not reloaded; empty if there are none.

        `command` is what a person types to sync.
        """
        if not self.stale or self.reload is not None:
            return ""
        hosts = {host for hosts in self.stale.values() for host in hosts}
        verb = fit(self.stale, "is", "are")
        return (
            f"{name_some(sorted(self.stale))} changed on {count_of(len(hosts), 'host')} and {verb} "
            f"imported already: {command} {shlex.join(self.paths)} --reload"
        )


def sync_code(
    line: Connection, paths: Paths, *, is_forced: bool = False, on_moved: OnMoved | None = None
) -> SyncResult:
    """Make code on every host what it is on this machine; `line` is nobody else's meanwhile.

    `mypkg` is copied so that cells on all hosts can `import mypkg`; of `src/`, as with rsync, what
    is in it can be imported. What was removed here since the last sync is removed there too.
    Left out are `__pycache__`, `.git`, `*.pyc`, `.ipynb_checkpoints`, `.venv` and `node_modules`.
    Links are followed if they stay inside. Copies end with the cluster. Ranks may be busy.
    `on_moved` hears how much has arrived, of what takes more than half a second.

    Raises UsageError for what cannot be copied, as a path that is not there or (unless it is
    forced) more than 256 MiB or 20 000 files; SyncFailed naming the hosts; and ClusterGone.
    """
    started_s = monotonic()
    given = _read_paths(paths)
    code = read_code(given, is_forced=is_forced)
    sync = _Sync(line, code, on_moved)
    try:
        sync.compare()
        sync.send()
        settled = sync.settle()
    except BaseException:
        sync.give_up()
        raise
    return SyncResult(
        paths=given,
        hosts=tuple(sync.lacking),
        file_count=len(code.local),
        size_bytes=code.size_bytes,
        changed_count=len({index for indices in sync.lacking.values() for index in indices}),
        removed_count=settled.removed,
        duration_s=monotonic() - started_s,
        stale=settled.stale,
        notes=tuple(sync.notes),
    )


class _Sync:
    def __init__(self, line: Connection, code: CodeFiles, on_moved: OnMoved | None) -> None:
        self._connection = line
        self._code = code
        self._request_id = line.new_request_id()
        self._teller = ProgressThrottle(self._request_id, on_moved)
        self._under_way: dict[int, int] = {}
        """Size of each chunk that not all its hosts have confirmed, by its number."""
        self.lacking: dict[str, list[int]] = {}
        """For each host, indices of the files that it needs."""
        self.notes: list[str] = []

    def compare(self) -> None:
        """Learn what each host lacks."""
        manifest = msgspec.msgpack.encode(self._code.manifest)
        answer, frames = self._connection.ask(SyncCode(self._request_id), CodeLacking, [manifest])
        if not answer.hosts and not answer.problems:
            raise SyncFailed(dict.fromkeys(answer.absent, "it is lost"), _UNCHANGED)
        _check(answer.problems, _UNCHANGED)
        self.notes += [f"{host} is lost: it has no new code" for host in answer.absent]
        for host, frame in zip(answer.hosts, frames, strict=True):
            self.lacking[host] = msgspec.msgpack.decode(frame, type=list[int])

    def send(self) -> None:
        """Send every host what it lacks, through the coordinator to its agent."""
        shared = share_contents(self._code.manifest.files, self.lacking)
        total_bytes = sum(self._code.manifest.files[index].size for _, index in shared)
        sent_bytes = 0
        where = f"to {name_some(list(self.lacking))}"
        chunks = pack_pieces(_read_pieces(self._code.local, shared))
        for number, (takers, pieces) in enumerate(chunks, start=1):
            self._under_way[number] = sum(len(piece.data) for piece in pieces)
            sent_bytes += self._under_way[number]
            request = SendCode(self._request_id, number, takers)
            self._connection.send(request, [msgspec.msgpack.encode(pieces)])
            self._await_taken(WINDOW_CHUNKS - 1)
            self._teller.tell(sent_bytes - sum(self._under_way.values()), total_bytes, where)
        while self._under_way:
            self._await_taken(len(self._under_way) - 1)
            self._teller.tell(sent_bytes - sum(self._under_way.values()), total_bytes, where)

    def settle(self) -> CodeCommitted:
        """Put everything into its place."""
        needed = {index for indices in self.lacking.values() for index in indices}
        changed = [file.path for i in sorted(needed) if (file := self._code.local[i]).has_changed()]
        if changed:
            raise SyncFailed(
                {"this machine": f"{name_some(changed)} changed while it was copied"},
                f"{_UNCHANGED} Sync again.",
            )
        settled, _ = self._connection.ask(CommitCode(self._request_id), CodeCommitted)
        is_partly_done = len(settled.problems) < len(self.lacking)
        others = "Other hosts have the new code. " if is_partly_done else ""
        part = "Those named may have a part of it; sync again when that is mended."
        _check(settled.problems, f"{others}{part}")
        return settled

    def give_up(self) -> None:
        """Let the hosts forget what they have got."""
        self._connection.send(CommitCode(self._request_id, is_wanted=False))

    def _await_taken(self, most: int) -> None:
        """Wait until at most so many chunks are under way."""
        while len(self._under_way) > most:
            for message, _ in self._connection.receive():
                if isinstance(message, CodeTaken) and message.request_id == self._request_id:
                    self._under_way.pop(message.number, None)
                    _check(message.problems, _UNCHANGED)
                else:
                    raise_refusal(message)


def _read_pieces(
    local: Sequence[LocalFile], shared: Sequence[tuple[tuple[str, ...], int]]
) -> Iterator[tuple[tuple[str, ...], Piece]]:
    """Read contents piece by piece; an empty file is one empty piece."""
    for hosts, index in shared:
        try:
            with open(local[index].place, "rb") as file:
                data = file.read(CHUNK_BYTES)
                yield hosts, Piece(index, data)
                while data := file.read(CHUNK_BYTES):
                    yield hosts, Piece(index, data)
        except OSError as problem:
            reason = f"{local[index].path} cannot be read any more: {problem.strerror}"
            raise SyncFailed({"this machine": reason}, _UNCHANGED) from None


def _read_paths(paths: Paths) -> tuple[str, ...]:
    several = [paths] if isinstance(paths, str | os.PathLike) else paths
    given = tuple(os.fspath(path) for path in several)
    if not given or not all(isinstance(path, str) and path for path in given):
        raise UsageError(f"paths {paths!r}: give files or folders, for example 'mypkg'.")
    return given


def _check(problems: Mapping[str, str], consequence: str) -> None:
    if problems:
        raise SyncFailed(problems, consequence)
