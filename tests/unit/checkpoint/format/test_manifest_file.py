import errno
import os

import msgspec
import numpy as np
import pytest
from fakes.checkpoint_files import PART, SPOILERS, fill, make_manifest

from jupyter_dist.checkpoint.format.manifest import FORMAT, Branch, CellSource
from jupyter_dist.checkpoint.format.manifest_file import (
    MANIFEST_NAME,
    decode_manifest,
    encode_manifest,
    read_manifest,
    write_manifest,
)
from jupyter_dist.errors import CheckpointDamaged, CheckpointFailed, CheckpointTooNew


@pytest.fixture
def manifest(tmp_path):
    made = fill(tmp_path, make_manifest(3), np.arange(3.0))
    return msgspec.structs.replace(
        made,
        versions={"numpy": "2.4", "jax": "0.10"},
        cells=(CellSource("[1]", "x = '\"é'\n"),),
        marks={"w": 0, "n": None},
    )


def test_it_comes_back_as_it_was(tmp_path, manifest):
    write_manifest(tmp_path, manifest)
    found = read_manifest(tmp_path)
    assert len(found.digest) == 32
    assert msgspec.structs.replace(found, digest="") == manifest
    assert sorted(os.listdir(tmp_path)) == [PART, MANIFEST_NAME]


def test_a_flipped_bit_anywhere_is_found(tmp_path, manifest):
    good = encode_manifest(manifest)
    for position in range(len(good)):
        for bit in (position % 8, 7):
            bad = bytearray(good)
            bad[position] ^= 1 << bit
            with pytest.raises((CheckpointDamaged, CheckpointTooNew), match="of/it"):
                decode_manifest(bytes(bad), tmp_path / "of" / "it")


def test_one_that_was_cut_is_found(tmp_path, manifest):
    good = encode_manifest(manifest)
    for length in range(0, len(good), 7):
        with pytest.raises(CheckpointDamaged):
            decode_manifest(good[:length], tmp_path)


@pytest.mark.parametrize("more", [b" ", b"\n", b"{}", b"\0"])
def test_bytes_behind_it_are_found(tmp_path, manifest, more):
    with pytest.raises(CheckpointDamaged):
        decode_manifest(encode_manifest(manifest) + more, tmp_path)


@pytest.mark.parametrize("rest", [b"", b',"nobody":[knows]', b',"digest":7,"step":"x"'])
def test_a_newer_format_is_told_whatever_else_it_has(tmp_path, rest):
    data = b'{"format":%d%s}' % (FORMAT + 1, rest.replace(b"knows", b'"knows"'))
    with pytest.raises(CheckpointTooNew, match=rf"format {FORMAT + 1}.* {FORMAT}\b"):
        decode_manifest(data, tmp_path)


@pytest.mark.parametrize("data", [b"", b"[]", b"nonsense", b'{"format":"1"}', b"[" * 100_000])
def test_what_is_no_manifest_is_told_as_that(tmp_path, data):
    with pytest.raises(CheckpointDamaged, match=str(tmp_path)) as caught:
        decode_manifest(data, tmp_path)
    assert isinstance(caught.value.__cause__, msgspec.DecodeError | RecursionError)


def test_what_cannot_be_is_refused_even_with_a_good_digest(tmp_path, manifest):
    (part,) = manifest.files
    escaping = msgspec.structs.replace(part, name="../arrays-00000.safetensors")
    forged = encode_manifest(msgspec.structs.replace(manifest, files=(escaping,)))
    with pytest.raises(CheckpointDamaged, match=escaping.name):
        decode_manifest(forged, tmp_path)


def test_a_tree_deeper_than_json_can_be_read_is_damaged_not_a_crash(tmp_path):
    blank = encode_manifest(make_manifest(structure=(Branch("list"),)))
    deep = b'{"kind":"list","children":[' * 100_000 + b"]}" * 100_000
    data = blank.replace(b'{"kind":"list","children":[],"keys":[],"type_name":""}', deep)
    assert len(data) > 1_000_000
    with pytest.raises(CheckpointDamaged):
        decode_manifest(data, tmp_path)


@pytest.mark.parametrize("name", SPOILERS)
def test_what_is_not_the_file_that_was_written_is_neither_read_nor_waited_for(tmp_path, name):
    write_manifest(tmp_path, make_manifest())
    SPOILERS[name](tmp_path / MANIFEST_NAME)
    with pytest.raises(CheckpointDamaged, match=MANIFEST_NAME):
        read_manifest(tmp_path)


def test_one_that_cannot_get_its_name_leaves_nothing(tmp_path):
    (tmp_path / MANIFEST_NAME).mkdir()
    with pytest.raises(CheckpointFailed):
        write_manifest(tmp_path, make_manifest())
    assert os.listdir(tmp_path) == [MANIFEST_NAME]


def test_a_full_disk_leaves_none(small_disk):
    big = make_manifest(cells=(CellSource("[1]", "x" * (2 << 20)),))
    with pytest.raises(CheckpointFailed, match=os.strerror(errno.ENOSPC)):
        write_manifest(small_disk, big)
    assert os.listdir(small_disk) == []
