"""Small checkpoints of one rank, written with the real writers."""

import os
import socket
import uuid
from contextlib import contextmanager
from pathlib import Path

from jupyter_dist.checkpoint.format.manifest import ArrayEntry, Leaf, Manifest, Tensor
from jupyter_dist.checkpoint.format.part_file import PartWriter
from jupyter_dist.checkpoint.storage.staging import Staging

PART = "arrays-00000.safetensors"


def make_manifest(step=0, leaves=(), files=(), **more):
    values = {
        "id": uuid.uuid4().hex,
        "step": step,
        "kind": "tree",
        "saved_at": "2026-11-22T15:04:05Z",
        "cluster": "demo",
        "world_size": 1,
        "generation": 1,
        "hosts": ("nodeA",),
        "is_shared": True,
        "structure": tuple(range(len(leaves))) if len(leaves) == 1 else (None,),
        "leaves": tuple(leaves),
        "files": tuple(files),
    }
    return Manifest(**{**values, **more})


def whole(array):
    return tuple((0, length) for length in array.shape)


def write_part(path, arrays, **more):
    """Write arrays by name; give their pieces by name, and the file."""
    tensors = [Tensor(name, array.dtype.name, array.shape) for name, array in arrays.items()]
    with PartWriter(path, tensors, rank=0, host="nodeA", **more) as writer:
        pieces = {name: writer.write(name, array, whole(array)) for name, array in arrays.items()}
        return pieces, writer.finish()


def array_leaf(path, array, *pieces, layout="replicated"):
    entry = ArrayEntry(
        dtype=array.dtype.name, shape=array.shape, layout=layout, library="numpy", pieces=pieces
    )
    return Leaf(path, (entry,))


@contextmanager
def staged(directory, step, checkpoint_id):
    """A checkpoint that is being saved, and is discarded in the end unless it was committed."""
    staging = Staging(directory, step, checkpoint_id).make()
    try:
        yield staging
    finally:
        staging.discard()


def save(directory, step, array, **more):
    """Save one array as a checkpoint; give its path."""
    manifest = make_manifest(step, **more)
    with staged(directory, step, manifest.id) as staging:
        staging.commit(fill(staging.path, manifest, array))
        return staging.final


def fill(path, manifest, array):
    """Write the part file of an array there; give the manifest that names it."""
    pieces, part = write_part(path / PART, {"w": array})
    leaf = array_leaf("['w']", array, pieces["w"])
    return make_manifest(manifest.step, [leaf], [part], id=manifest.id)


def _link(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))  # the whole path may be too long for a socket


SPOILERS = {
    "missing": Path.unlink,
    "link": _link,
    "pipe": lambda path: path.unlink() or os.mkfifo(path),
    "device": lambda path: path.unlink() or path.symlink_to("/dev/zero"),
    "directory": lambda path: path.unlink() or path.mkdir(),
    "socket": lambda path: path.unlink() or _socket(path),
    "longer": lambda path: os.truncate(path, path.stat().st_size + 1),
    "shorter": lambda path: os.truncate(path, path.stat().st_size - 1),
}
"""What makes of a file that is there one that must not be read."""
