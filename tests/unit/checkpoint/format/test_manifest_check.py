import re
from pathlib import Path

import msgspec
import pytest
from fakes.checkpoint_files import make_manifest

from jupyter_dist.checkpoint.format.manifest import (
    ArrayEntry,
    Branch,
    Leaf,
    ObjectEntry,
    PartFile,
    Piece,
    PlainEntry,
    Sharding,
    plain_entry,
)
from jupyter_dist.checkpoint.format.manifest_check import find_problem, is_plain_name
from jupyter_dist.checkpoint.format.manifest_file import decode_manifest, encode_manifest
from jupyter_dist.errors import CheckpointDamaged

DIGEST = "0f" * 16
FILES = (
    PartFile("arrays-00000.safetensors", 48, 0, "nodeA", DIGEST, 16),
    PartFile("arrays-00001.safetensors", 32, 1, "nodeB", DIGEST, 16),
    PartFile("objects-00001.pickles", 9, 1, "nodeB", DIGEST),
)


def piece(number, offset, nbytes, box=(), **more):
    values = {"digest": DIGEST, "rank": FILES[number].rank, "key": "k"} | more
    return Piece(file=FILES[number].name, offset=offset, nbytes=nbytes, box=box, **values)


W = ArrayEntry(
    dtype="float32",
    shape=(6,),
    layout="sharded",
    library="torch",
    pieces=(piece(0, 16, 12, ((0, 3),)), piece(1, 16, 12, ((3, 6),))),
    sharding=Sharding(axis=0),
)
SEED = ObjectEntry(type_name="Generator", layout="per_rank", pieces=(piece(2, 0, 9),))
LEAVES = (
    Leaf("['w']", (W,)),
    Leaf("['seed']", (None, SEED)),
    Leaf("['n']", (plain_entry(3, "replicated"),)),
)
GOOD = make_manifest(
    world_size=2,
    hosts=("nodeA", "nodeB"),
    files=FILES,
    leaves=LEAVES,
    structure=(Branch("dict", (0, 1, 2), ("w", "seed", "n")),),
)
replace = msgspec.structs.replace


def with_array(**changes):
    return replace(GOOD, leaves=(Leaf("['w']", (replace(W, **changes),)), *LEAVES[1:]))


def with_first_piece(**changes):
    return with_array(pieces=(replace(W.pieces[0], **changes), W.pieces[1]))


def with_file(**changes):
    return replace(GOOD, files=(replace(FILES[0], **changes), *FILES[1:]))


def with_tree(*nodes):
    return replace(GOOD, structure=nodes)


def with_leaf(*by_rank):
    return replace(GOOD, leaves=(*LEAVES[:2], Leaf("['n']", by_rank)))


def test_a_manifest_that_can_be_true_has_no_problem():
    assert find_problem(GOOD) == ""


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (replace(GOOD, format=0), "$.format"),
        (replace(GOOD, id="../../etc"), "$.id"),
        (replace(GOOD, step=-1), "$.step"),
        (replace(GOOD, world_size=3), "hosts of 2 of 3 ranks"),
        (replace(GOOD, files=(*FILES, FILES[0])), "names a file twice"),
        (with_file(name="../arrays"), "'../arrays' is no plain file name"),
        (with_file(name="/etc/passwd"), "no plain file name"),
        (with_file(rank=2), "of rank 2 of 2"),
        (with_file(digest="x"), "$.files[0].digest"),
        (with_file(header_nbytes=99), "a header of 99"),
        (with_file(nbytes=-1, header_nbytes=-1), "$.files[0].nbytes"),
        (with_tree(0, 1, 2), "3 trees for 2 ranks"),
        (with_tree(3), "leaf 3 of 3"),
        (with_tree(Branch("list", (0, -1))), "leaf -1 of 3"),
        (with_tree(Branch("dict", (0, 1), ("a",))), "1 keys for 2 values"),
        (with_tree(Branch("list", (0,), ("a",))), "a list of its tree has 1 keys"),
        (with_tree(Branch("tuple", (0,), ("a", "b"))), "a tuple of its tree has 2 keys"),
        (with_tree(Branch("dict", (0, 1), (1, True))), "has a key twice"),
        (with_tree(Branch("state", (0, 1))), "a state of its tree has 2 values"),
        (replace(GOOD, leaves=(*LEAVES, LEAVES[0])), "has a leaf twice"),
        (with_leaf(), "['n']: it has 0 entries for 2 ranks"),
        (with_leaf(None, None), "has 2 entries for 2 ranks"),
        (with_leaf(plain_entry(1, "per_rank")), "has 1 entries for 2 ranks"),
        (with_leaf(*[plain_entry(1, "replicated")] * 2), "has 2 entries for 2 ranks"),
        (with_leaf(PlainEntry(kind="int", text="x", layout="replicated")), "'x' is no int"),
        (with_leaf(replace(SEED, layout="replicated", pieces=())), "an object has 0 pieces"),
        (with_array(dtype="object"), "['w']: its dtype is 'object'"),
        (with_array(dtype="object", pieces=(), shape=(0,)), "its dtype is 'object'"),
        (with_array(shape=(7,)), "6 of 7 elements"),
        (with_array(shape=(-6,)), ".shape[0]"),
        (with_array(shape=(6, 1)), "1 axes, the array 2"),
        (with_array(dtype="float64"), "a piece of 24 bytes has 12"),
        (with_array(sharding=Sharding(axis=1)), "shared along 1"),
        (with_array(sharding=Sharding(spec=((), ()))), "shared along -1 or ((), ())"),
        (with_first_piece(box=((0, 4),)), "pieces overlap"),
        (with_first_piece(file="other"), "'other', which is not among the files"),
        (with_first_piece(rank=1), "rank 1 wrote it into arrays-00000.safetensors of rank 0"),
        (with_first_piece(offset=40), "beyond the end"),
        (with_first_piece(offset=0), "beyond the end"),
        (with_first_piece(digest="0F" * 16), ".pieces[0].digest"),
    ],
)
def test_what_cannot_be_is_found(manifest, words):
    with pytest.raises(CheckpointDamaged, match=re.escape(words)):
        decode_manifest(encode_manifest(manifest), Path())


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "../x", "/x", "a\0b", "a\nb"])
def test_a_name_that_is_not_plain_is_seen(name):
    assert not is_plain_name(name)


def test_a_tree_may_be_deep():
    node = 0
    for _ in range(5000):
        node = Branch("list", (node,))
    assert find_problem(with_tree(node)) == ""
