"""What code on the hosts shall be: every file with its digest, and which of them must be sent."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

import msgspec

MOST_BYTES = 256 << 20
"""So much is copied without being asked twice; data sets have better ways."""
MOST_FILES = 20_000
MOST_FORCED_FILES = 500_000
"""What one host is told of so many files still fits into a message of gRPC."""
CHUNK_BYTES = 2 << 20
"""gRPC takes messages of up to 4 MiB."""
_LEFT_OUT = frozenset({"__pycache__", ".git", ".ipynb_checkpoints", ".venv", "node_modules"})
_DIGEST_BYTES = 20


class CodeFile(msgspec.Struct, frozen=True, array_like=True):
    """One file; `path` is where it lies below the code directory, with `/` on every system."""

    path: str
    size: int
    mode: int
    """Permission bits."""
    digest: bytes
    """Of its contents, as `new_digest` makes them."""


class CodeSource(msgspec.Struct, frozen=True, array_like=True):
    """One path that was given; whatever lies below its names on the hosts belongs to it."""

    origin: str
    """The absolute path here; with a slash at its end when what is in it was meant."""
    names: tuple[str, ...]
    """What it puts into the code directory itself."""


class Manifest(msgspec.Struct, frozen=True):
    """Everything that one sync is about."""

    sources: tuple[CodeSource, ...]
    files: tuple[CodeFile, ...]
    folders: tuple[str, ...] = ()
    """Folders in which there is nothing to copy."""


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """The next bytes of a file of the manifest, named by its index there."""

    index: int
    data: bytes


def new_digest() -> "hashlib.blake2b":
    """Begin the digest of a file's contents."""
    return hashlib.blake2b(digest_size=_DIGEST_BYTES)


def is_left_out(name: str) -> bool:
    """Return whether nobody wants a file or folder of this name on the hosts."""
    return name in _LEFT_OUT or name.endswith(".pyc")


def find_escape(manifest: Manifest) -> str | None:
    """Return the first path that would not lie below the code directory, or None."""
    names = [name for source in manifest.sources for name in source.names]
    paths = (*(file.path for file in manifest.files), *manifest.folders, *names)
    for path in paths:
        if "\0" in path or not {"", ".", ".."}.isdisjoint(path.split("/")):
            return path
    return None


def parents_of(paths: Iterable[str]) -> set[str]:
    """Return every folder above these paths, up to but without the code directory itself."""
    found: set[str] = set()
    for path in paths:
        for parent in PurePosixPath(path).parents:
            if str(parent) == "." or str(parent) in found:
                break
            found.add(str(parent))
    return found


def share_contents(
    files: Sequence[CodeFile], lacking: Mapping[str, Iterable[int]]
) -> list[tuple[tuple[str, ...], int]]:
    """Return which contents go to which hosts: (hosts, index of a file that has them).

    `lacking` has the indices of the files that each host needs. Files with the same contents are
    sent once, and what goes to the same hosts stands together.
    """
    first: dict[bytes, int] = {}
    hosts: dict[int, list[str]] = {}
    for host, indices in lacking.items():
        for index in indices:
            content = first.setdefault(files[index].digest, index)
            takers = hosts.setdefault(content, [])
            if host not in takers[-1:]:
                takers.append(host)
    return sorted((tuple(takers), index) for index, takers in hosts.items())


def pack_pieces(
    pieces: Iterable[tuple[tuple[str, ...], Piece]], most_bytes: int = CHUNK_BYTES
) -> Iterator[tuple[tuple[str, ...], list[Piece]]]:
    """Put pieces for the same hosts into chunks of about `most_bytes` at most."""
    chunk: list[Piece] = []
    chunk_hosts: tuple[str, ...] = ()
    size = 0
    for hosts, piece in pieces:
        if chunk and (hosts != chunk_hosts or size + len(piece.data) > most_bytes):
            yield chunk_hosts, chunk
            chunk, size = [], 0
        chunk_hosts = hosts
        chunk.append(piece)
        size += len(piece.data) + 16
    if chunk:
        yield chunk_hosts, chunk
