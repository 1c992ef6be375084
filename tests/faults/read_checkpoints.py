"""Read every checkpoint of a directory in a process of its own, and compare it to what was saved.

python tests/faults/read_checkpoints.py DIRECTORY

It prints JSON: the newest step (null: none), and what is wrong with each step (empty: nothing).
There is no cluster here: pieces are read one by one as the manifest says, and put together.
"""

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import saved_tree

from jupyter_dist.checkpoint.format.manifest import value_of
from jupyter_dist.checkpoint.format.part_file import PartReader
from jupyter_dist.checkpoint.format.sharding import box_shape, slices
from jupyter_dist.checkpoint.storage import directory


def assemble(checkpoint, manifest, entry):
    """Put an array together from its pieces; whatever no piece covers is wrong on purpose."""
    whole = np.full(entry.shape, -1, dtype=entry.dtype)
    parts = {part.name: part for part in manifest.files}
    for piece in entry.pieces:
        with PartReader(checkpoint / piece.file, parts[piece.file]) as reader:
            block = reader.read(piece).view(entry.dtype).reshape(box_shape(piece.box))
        whole[slices(piece.box)] = block
    return whole


def wrong_with(checkpoint):
    """What is not as it was saved, in words."""
    manifest = directory.read_manifest(checkpoint)
    step, found = manifest.step, {}
    for leaf in manifest.leaves:
        for rank, entry in enumerate(leaf.by_rank):
            if hasattr(entry, "shape"):
                found[leaf.path, rank] = assemble(checkpoint, manifest, entry)
            else:
                found[leaf.path, rank] = value_of(entry)
    expected = {
        ("['shared']", 0): saved_tree.shared(step),
        ("['blocks']", 0): saved_tree.blocks(step),
        ("['progress'][0]", 0): step,
        ("['progress'][1]['name']", 0): f"step {step}",
    }
    for rank in range(manifest.world_size):
        expected["['own']", rank] = saved_tree.own(step, rank)
        expected["['progress'][1]['rank']", rank] = rank
    if set(found) != set(expected):
        return f"has {sorted(found)}"
    bad = [key for key, value in expected.items() if not np.array_equal(found[key], value)]
    return f"other values: {bad}" if bad else ""


def main():
    """Look at all of them."""
    root = Path(sys.argv[1])
    newest = directory.latest(root)
    steps = {found.step: wrong_with(found.path) for found in directory.find(root)}
    print(json.dumps({"latest": newest.step if newest else None, "steps": steps}))


if __name__ == "__main__":
    main()
