"""Small checkpoints of one rank, written with the real writers."""

import uuid

from jupyter_dist.checkpoint.part_file import PartWriter
from jupyter_dist.checkpoint.staging import Staging
from jupyter_dist.model.checkpoint_manifest import ArrayEntry, Leaf, Manifest, Tensor

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


def write_part(path, arrays, rank=0, host="nodeA", **more):
    """Write arrays by name; give their pieces by name, and the file."""
    tensors = [Tensor(name, array.dtype.name, array.shape) for name, array in arrays.items()]
    with PartWriter(path, tensors, rank=rank, host=host, **more) as writer:
        pieces = {name: writer.write(name, array, whole(array)) for name, array in arrays.items()}
        return pieces, writer.finish()


def array_leaf(path, array, *pieces, layout="replicated"):
    entry = ArrayEntry(
        dtype=array.dtype.name, shape=array.shape, layout=layout, library="numpy", pieces=pieces
    )
    return Leaf(path, (entry,))


def save(directory, step, array, **more):
    """Save one array as a checkpoint; give its path."""
    manifest = make_manifest(step, **more)
    with Staging.make(directory, step, manifest.id) as staging:
        return staging.commit(fill(staging.path, manifest, array))


def fill(path, manifest, array):
    """Write the part file of an array there; give the manifest that names it."""
    pieces, part = write_part(path / PART, {"w": array})
    leaf = array_leaf("['w']", array, pieces["w"])
    return make_manifest(manifest.step, [leaf], [part], id=manifest.id)
