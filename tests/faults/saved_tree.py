"""What ranks save in the tests: a tree of arrays that everybody can compute from its step.

Cells of the tests run this file, and so does the process that compares what lies on the disk; it
needs nothing but numpy.
"""

import numpy as np

OWN_WORDS = 1 << 20
"""Of each rank's own array: 4 MiB."""
SHARED_WORDS = 1 << 19
ROWS = 4003
"""Of the array that lies over all ranks; no number of ranks divides it."""


def numbers(step, salt, shape):
    """Arbitrary words, the same wherever they are asked for."""
    words = np.random.default_rng((step, salt)).bytes(4 * int(np.prod(shape)))
    return np.frombuffer(words, dtype=np.int32).reshape(shape).copy()


def own(step, rank):
    """The array that only this rank has."""
    return numbers(step, rank, (OWN_WORDS,))


def shared(step):
    """The array that is the same on all ranks."""
    return numbers(step, 1001, (SHARED_WORDS,))


def blocks(step):
    """The array of which each rank has a block of rows."""
    return numbers(step, 1002, (ROWS, 16))


def make_tree(step, rank, world_size, shard):
    """The tree of a rank; `shard` marks a block of an array that lies over all ranks."""
    block = np.array_split(blocks(step), world_size)[rank]
    return {
        "own": own(step, rank),
        "shared": shared(step),
        "blocks": shard(block),
        "progress": [step, {"rank": rank, "name": f"step {step}"}],
    }


def differences(tree, step, rank, world_size):
    """Where a restored tree is not what this rank saved as this step; empty is as it should be."""
    expected = make_tree(step, rank, world_size, lambda block: block)
    found = {**tree, "blocks": tree["blocks"].array}
    return [name for name in expected if not _is_same(expected[name], found.get(name))]


def _is_same(one, other):
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return one == other
