"""The file `manifest.json` of a checkpoint: written whole or not at all, and checked when read."""

import os
import re
from functools import partial
from pathlib import Path

import msgspec
import xxhash

from jupyter_dist.checkpoint.file_errors import as_not_saved, open_saved, unreadable
from jupyter_dist.checkpoint.format.manifest import FORMAT, Manifest
from jupyter_dist.checkpoint.format.manifest_check import find_problem
from jupyter_dist.descriptors import Descriptor
from jupyter_dist.errors import CheckpointDamaged, CheckpointTooNew

MANIFEST_NAME = "manifest.json"
_DIGEST = re.compile(rb'"digest":"([0-9a-f]{32})"')
_NO_DIGEST = "0" * 32


class _Version(msgspec.Struct):
    """The one thing that manifests of all formats have in common."""

    format: int


def encode_manifest(manifest: Manifest) -> bytes:
    """Spell it as JSON that holds its own digest."""
    blank = msgspec.json.encode(msgspec.structs.replace(manifest, digest=_NO_DIGEST))
    digest = xxhash.xxh3_128_hexdigest(blank).encode()
    return blank.replace(_NO_DIGEST.encode(), digest, 1)


def decode_manifest(data: bytes, where: Path) -> Manifest:
    """Read it; `where` is named in errors. Raises CheckpointTooNew and CheckpointDamaged."""
    try:
        version = msgspec.json.decode(data, type=_Version).format
    except (msgspec.DecodeError, RecursionError) as error:
        raise _damaged(where, f"it is no manifest ({error})") from error
    if version > FORMAT:
        raise CheckpointTooNew(
            f"{where} has format {version}, and this jupyter-dist reads formats up to {FORMAT}. "
            "Restore it with the version that saved it, or a later one, or restore another step."
        )
    found = _DIGEST.search(data)
    if found is None or _digest_without(data, found) != found[1].decode():
        raise _damaged(where, "its bytes are not those that were saved")
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _damaged(where, f"it is no manifest of format {FORMAT} ({error})") from error
    problem = find_problem(manifest)
    if problem:
        raise _damaged(where, problem)
    return manifest


def write_manifest(checkpoint: Path, manifest: Manifest) -> None:
    """Put it into the directory of a checkpoint in one step. Raises CheckpointFailed."""
    path = checkpoint / MANIFEST_NAME
    fresh = checkpoint / f".{MANIFEST_NAME}.{manifest.id}"
    with as_not_saved(path):
        try:
            _write(fresh, encode_manifest(manifest))
            fresh.rename(path)
        finally:
            fresh.unlink(missing_ok=True)
        sync_directory(checkpoint)


def read_manifest(checkpoint: Path) -> Manifest:
    """Read that of a checkpoint. Raises CheckpointTooNew and CheckpointDamaged."""
    path = checkpoint / MANIFEST_NAME
    try:
        with open_saved(path) as own, open(own.number, "rb", closefd=False) as file:
            data = file.read()
    except OSError as error:
        raise unreadable(path, error) from error
    return decode_manifest(data, path)


def sync_directory(path: Path) -> None:
    """Have the names in a directory on the disk. Raises OSError."""
    with Descriptor(partial(os.open, path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as names:
        os.fsync(names.number)


def _write(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with Descriptor(partial(os.open, path, flags, 0o666)) as own:
        with open(own.number, "wb", closefd=False) as file:
            file.write(data)
        os.fsync(own.number)


def _digest_without(data: bytes, found: re.Match[bytes]) -> str:
    """Return the digest of the file as it was before its digest stood in it."""
    digest = xxhash.xxh3_128(data[: found.start(1)])
    digest.update(_NO_DIGEST.encode())
    digest.update(data[found.end(1) :])
    return digest.hexdigest()


def _damaged(where: Path, problem: str) -> CheckpointDamaged:
    return CheckpointDamaged(f"{where}: {problem}. Restore another step.")
