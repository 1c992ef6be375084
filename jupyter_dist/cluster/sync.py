"""Copy code to every host: compare, send what is lacking, and put it into place everywhere.

Nothing changes on any host before everything has arrived on all of them.
"""

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from time import monotonic

import msgspec

from jupyter_dist.cluster.code_files import CodeFiles, LocalFile, read_code
from jupyter_dist.cluster.line import Line, raise_refusal
from jupyter_dist.cluster.moving import OnMoved, Teller
from jupyter_dist.cluster.result import SpmdResult
from jupyter_dist.errors import SyncFailed, UsageError
from jupyter_dist.launch.rsync import RsyncOrder, RsyncRun
from jupyter_dist.model.manifest import CHUNK_BYTES, Piece, pack_pieces, share_contents
from jupyter_dist.model.spec import HostSpec
from jupyter_dist.model.text import name_some
from jupyter_dist.protocol.messages import (
    CodeLacking,
    CodeSettled,
    CodeTaken,
    SendCode,
    SettleCode,
    SyncCode,
)

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
RSYNC_FROM_BYTES = 8 << 20
"""Less than this is there before ssh and rsync have shaken hands; of more, much may be there."""
WINDOW_CHUNKS = 8
"""So many chunks may be on their way at once."""
SLICE_S = 0.1
OLDER_CODE = "../../code"
"""Where rsync finds older versions, seen from where it brings files."""
_UNCHANGED = "Nothing was changed on any host."
RELOAD_CELL = (
    "__import__('jupyter_dist.engine.reloading', fromlist=['reload_changed']).reload_changed()"
)
"""Leaves no name behind on the ranks."""


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
    over_rsync: tuple[str, ...] = ()
    """Hosts to which rsync has brought what they lacked; to others it went through their agents."""
    stale: dict[str, tuple[str, ...]] = {}
    """Modules that ranks had imported before their file changed, with the hosts."""
    notes: tuple[str, ...] = ()
    """What the user should know: hosts that are lost, rsyncs that failed; one sentence each."""
    reload: SpmdResult | None = None
    """What came of loading changed modules anew, if that was asked for."""

    def __str__(self) -> str:
        size = _size_text(self.size_bytes)
        changes = [f"{_count(self.changed_count, 'file')} changed"] if self.changed_count else []
        changes += [f"{self.removed_count} removed"] if self.removed_count else []
        return (
            f"copied {name_some(self.paths)} ({_count(self.file_count, 'file')}, {size}) to "
            f"{_count(len(self.hosts), 'host')} in {self.duration_s:.1f} s "
            f"({', '.join(changes) or 'nothing had changed'})"
        )

    def hint(self, command: str = "%dist_sync") -> str:
        """Say what to do about modules that ranks still have as they were; empty if there are none.

        `command` is what a person types to sync.
        """
        if not self.stale or self.reload is not None:
            return ""
        hosts = {host for hosts in self.stale.values() for host in hosts}
        verb = "is" if len(self.stale) == 1 else "are"
        return (
            f"{name_some(sorted(self.stale))} changed on {_count(len(hosts), 'host')} and {verb} "
            f"imported already: {command} {shlex.join(self.paths)} --reload"
        )


def sync_code(
    line: Line,
    hosts: Sequence[HostSpec],
    paths: Paths,
    *,
    is_forced: bool = False,
    on_moved: OnMoved | None = None,
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
        sync.send({host.name: host for host in hosts if host.launcher == "ssh"})
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
        over_rsync=tuple(sync.over_rsync),
        stale=settled.stale,
        notes=tuple(sync.notes),
    )


class _Sync:
    """One sync under way."""

    def __init__(self, line: Line, code: CodeFiles, on_moved: OnMoved | None) -> None:
        self._line = line
        self._code = code
        self._request_id = line.new_request_id()
        self._teller = Teller(self._request_id, on_moved)
        self._chunk_count = 0
        self._under_way: dict[int, int] = {}
        """Size of each chunk that not all its hosts have confirmed, by its number."""
        self._places: dict[str, tuple[str, str]] = {}
        """For each host, where rsync puts files, and its rsync (empty: none)."""
        self.lacking: dict[str, list[int]] = {}
        """For each host, indices of the files that it needs."""
        self.over_rsync: list[str] = []
        self.notes: list[str] = []

    def compare(self) -> None:
        """Learn what each host lacks."""
        manifest = msgspec.msgpack.encode(self._code.manifest)
        answer, frames = self._line.ask(SyncCode(self._request_id), CodeLacking, [manifest])
        if not answer.hosts and not answer.problems:
            raise SyncFailed(dict.fromkeys(answer.absent, "it is lost"), _UNCHANGED)
        _check(answer.problems, _UNCHANGED)
        self.notes += [f"{host} is lost: it has no new code" for host in answer.absent]
        places = zip(answer.incoming_dirs, answer.rsyncs, strict=True)
        self._places = dict(zip(answer.hosts, places, strict=True))
        for host, frame in zip(answer.hosts, frames, strict=True):
            self.lacking[host] = msgspec.msgpack.decode(frame, type=list[int])

    def send(self, ssh_hosts: Mapping[str, HostSpec]) -> None:
        """Bring every host what it lacks: much of it by rsync, if host and we have that."""
        by_rsync = [host for host in ssh_hosts if self._is_for_rsync(host)]
        runs: list[RsyncRun] = []
        try:
            for host in by_rsync:
                runs.extend(RsyncRun(order) for order in self._orders(ssh_hosts[host]))
            self._stream([host for host in self.lacking if host not in by_rsync])
            while running := [run for run in runs if not run.wait(SLICE_S / len(runs))]:
                self._line.check_alive()
                self._tell_of_rsync(by_rsync, runs, running)
            problems = {run.host: run.problem for run in runs if run.problem}
        finally:
            for run in runs:
                run.close()
        self.over_rsync = [host for host in by_rsync if host not in problems]
        self.notes += [
            f"{host}: {problem}; its agent was sent the files instead"
            for host, problem in problems.items()
        ]
        self._stream(list(problems))

    def settle(self) -> CodeSettled:
        """Put everything into its place."""
        needed = {index for indices in self.lacking.values() for index in indices}
        changed = [file.path for i in sorted(needed) if (file := self._code.local[i]).has_changed()]
        if changed:
            raise SyncFailed(
                {"this machine": f"{name_some(changed)} changed while it was copied"},
                f"{_UNCHANGED} Sync again.",
            )
        settled, _ = self._line.ask(SettleCode(self._request_id), CodeSettled)
        is_partly_done = len(settled.problems) < len(self.lacking)
        others = "Other hosts have the new code. " if is_partly_done else ""
        part = "Those named may have a part of it; sync again when that is mended."
        _check(settled.problems, f"{others}{part}")
        return settled

    def give_up(self) -> None:
        """Let the hosts forget what they have got."""
        self._line.send(SettleCode(self._request_id, is_wanted=False))

    def _is_for_rsync(self, host: str) -> bool:
        _, rsync_there = self._places.get(host, ("", ""))
        size = sum(self._code.manifest.files[index].size for index in self.lacking.get(host, ()))
        return bool(rsync_there) and size >= RSYNC_FROM_BYTES and shutil.which("rsync") is not None

    def _orders(self, host: HostSpec) -> Iterator[RsyncOrder]:
        """Give one order for each folder in which something lies that was given."""
        target, rsync_there = self._places[host.name]
        files = [self._code.local[index] for index in self.lacking[host.name]]
        for base in dict.fromkeys(file.base for file in files):
            paths = tuple(file.path for file in files if file.base == base)
            yield RsyncOrder(host, rsync_there, base, paths, target, OLDER_CODE)

    def _stream(self, hosts: Sequence[str]) -> None:
        """Send what these hosts lack through the coordinator to their agents."""
        lacking = {host: self.lacking[host] for host in hosts}
        shared = share_contents(self._code.manifest.files, lacking)
        total_bytes = sum(self._code.manifest.files[index].size for _, index in shared)
        sent_bytes = 0
        where = f"to {name_some(hosts)}"
        for takers, pieces in pack_pieces(_read_pieces(self._code.local, shared)):
            self._chunk_count += 1
            size = sum(len(piece.data) for piece in pieces)
            self._under_way[self._chunk_count] = size
            sent_bytes += size
            request = SendCode(self._request_id, self._chunk_count, takers)
            self._line.send(request, [msgspec.msgpack.encode(pieces)])
            self._await_taken(WINDOW_CHUNKS - 1)
            self._teller.tell(sent_bytes - sum(self._under_way.values()), total_bytes, where)
        while self._under_way:
            self._await_taken(len(self._under_way) - 1)
            self._teller.tell(sent_bytes - sum(self._under_way.values()), total_bytes, where)

    def _tell_of_rsync(
        self, hosts: Sequence[str], runs: Sequence[RsyncRun], running: Sequence[RsyncRun]
    ) -> None:
        """Say which rsyncs still run and, where they tell, how much they have sent."""
        under_way = {run.host for run in running}
        names = name_some([host for host in hosts if host in under_way])
        sizes = [self._code.manifest.files[i].size for host in hosts for i in self.lacking[host]]
        moved_bytes = sum(run.moved_bytes for run in runs)
        self._teller.tell(moved_bytes, sum(sizes) if moved_bytes else 0, f"rsync to {names}")

    def _await_taken(self, most: int) -> None:
        """Wait until at most so many chunks are under way."""
        while len(self._under_way) > most:
            for message, _ in self._line.receive():
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


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _size_text(size_bytes: int) -> str:
    if size_bytes < 1000:
        return f"{size_bytes} B"
    if size_bytes < 999_500:
        return f"{size_bytes / 1e3:.0f} KB"
    return f"{size_bytes / 1e6:.1f} MB" if size_bytes < 10e6 else f"{size_bytes / 1e6:.0f} MB"
