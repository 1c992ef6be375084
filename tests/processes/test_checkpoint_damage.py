"""Damaged checkpoints and bad places: told with a path and the next step, and nothing is touched."""

import errno
import hashlib
import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from jupyter_dist.checkpoint.format import manifest_file
from tests.matrix import only
from tests.small_disk import mounted_disk

from .results import values

DEFINE = """
import numpy as np
def tree(step):
    words = np.random.default_rng((step, rank)).integers(0, 1 << 30, 1 << 16)
    return {"w": words, "shared": np.arange(1000) * step, "step": step}
def restored(directory, step=None):
    found = checkpoint.restore(directory, step)
    expected = tree(found["step"])
    return found["step"], all(np.array_equal(found[name], expected[name]) for name in expected)
"""
SAVE = "_ = checkpoint.save({!r}, tree({step}), {step})"


@pytest.fixture
def ranks(four):
    values(four.run(DEFINE))
    return four


@pytest.fixture
def place(ranks, tmp_path):
    """A directory with two good checkpoints, of steps 1 and 2."""
    place = tmp_path / "run"
    for step in (1, 2):
        values(ranks.run(SAVE.format(str(place), step=step)))
    return place


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own for a test, of 4 MiB."""
    with mounted_disk(tmp_path / "disk", "4m") as disk:
        yield disk


def contents(folder):
    """What lies in a folder: the digest of every file, and where links lead."""
    return {
        str(path.relative_to(folder)): (
            os.readlink(path) if path.is_symlink() else hashlib.sha256(path.read_bytes()).digest()
        )
        for path in folder.rglob("*")
        if not path.is_dir() or path.is_symlink()
    }


def flip(path, offset):
    """Turn over one bit of a file."""
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


def newest(place):
    return place / "step-00000002"


def refusals(cluster, code):
    """Have all ranks fail in a cell; give name and words of the error of each."""
    result = cluster.run(code)
    assert {rank.status for rank in result} == {"raised"}, [str(rank.error) for rank in result]
    return [(rank.error.ename, rank.error.evalue) for rank in result]


def assert_refused(cluster, place, step, error, *words):
    """No rank restores this step, each says why, and nothing in the directory is touched."""
    before = contents(place)
    for name, text in refusals(cluster, f"checkpoint.restore({str(place)!r}, {step})"):
        assert name == error, text
        for word in words:
            assert word in text
    assert contents(place) == before


def assert_first_loads(cluster, place):
    """The checkpoint before the damaged one is as good as ever."""
    code = f"restored({str(place)!r}, 1)"
    assert values(cluster.run(code)) == ["(1, True)"] * 4


def rewrite(place, change):
    """Write a manifest that is whole, as its writer would, but says something else."""
    path = newest(place) / "manifest.json"
    path.write_bytes(
        manifest_file.encode_manifest(change(manifest_file.read_manifest(newest(place))))
    )


def flip_data(part):
    flip(part, part.stat().st_size // 2)


def flip_header(part):
    flip(part, 12)


def cut_off(part):
    os.truncate(part, part.stat().st_size - 1)


def take_another(part):
    part.write_bytes((part.parent.with_name("step-00000001") / part.name).read_bytes())


def lead_elsewhere(part):
    elsewhere = part.parent.parent.with_name("elsewhere.safetensors")
    part.rename(elsewhere)
    part.symlink_to(elsewhere)


@pytest.mark.parametrize(
    "spoil",
    only(
        [flip_data, lead_elsewhere],
        [flip_data, flip_header, Path.unlink, cut_off, take_another, lead_elsewhere],
    ),
)
def test_a_part_that_is_not_what_was_saved_is_named(spoil, ranks, place):
    part = newest(place) / "arrays-00002.safetensors"
    spoil(part)
    assert_refused(ranks, place, 2, "CheckpointDamaged", part.name)
    assert_first_loads(ranks, place)


@pytest.mark.parametrize("where", [0.1, 0.9])
def test_a_flipped_bit_in_the_manifest_is_found(where, ranks, place):
    manifest = newest(place) / "manifest.json"
    flip(manifest, int(manifest.stat().st_size * where))
    assert_refused(ranks, place, 2, "CheckpointDamaged", "manifest.json")
    assert_first_loads(ranks, place)
    found = values(ranks.run(f"checkpoint.latest({str(place)!r}).step"))
    assert found == ["1"] * 4, "a manifest that is not whole is not found"


@pytest.mark.parametrize("name", ["../outside.safetensors", "/etc/hostname", "sub/../../x", ".."])
def test_a_path_that_leaves_the_directory_is_refused(name, ranks, place):
    def lead_out(manifest):
        text = msgspec.json.encode(manifest).replace(b"arrays-00001.safetensors", name.encode())
        return msgspec.json.decode(text, type=type(manifest))

    (place / "outside.safetensors").write_bytes(
        (newest(place) / "arrays-00001.safetensors").read_bytes()
    )
    rewrite(place, lead_out)
    assert_refused(ranks, place, 2, "CheckpointDamaged", name)


def test_a_newer_format_is_named_with_both_numbers(ranks, place):
    rewrite(place, lambda manifest: msgspec.structs.replace(manifest, format=manifest.format + 41))
    assert_refused(ranks, place, 2, "CheckpointTooNew", "42", "jupyter-dist")
    assert_first_loads(ranks, place)


def test_a_checkpoint_that_is_not_there_is_named(ranks, place, tmp_path):
    assert_refused(ranks, place, 7, "CheckpointNotFound", "7", str(place))
    nowhere = tmp_path / "nowhere"
    for name, text in refusals(ranks, f"checkpoint.restore({str(nowhere)!r})"):
        assert name == "CheckpointNotFound"
        assert str(nowhere) in text
    assert not nowhere.exists()


def test_a_step_that_is_there_is_not_overwritten(ranks, place):
    before = contents(place)
    for name, text in refusals(ranks, SAVE.format(str(place), step=2)):
        assert name == "CheckpointFailed"
        assert "step-00000002" in text
    assert contents(place) == before


def test_a_damaged_step_is_not_overwritten_either(ranks, place):
    flip(newest(place) / "manifest.json", 30)
    before = contents(place)
    refusals(ranks, SAVE.format(str(place), step=2))
    assert contents(place) == before
    values(ranks.run(SAVE.format(str(place), step=3)))
    assert values(ranks.run(f"restored({str(place)!r})")) == ["(3, True)"] * 4


def test_a_full_disk_is_told_and_costs_nothing_that_was_saved(ranks, small_disk):
    place = small_disk / "run"
    values(ranks.run(SAVE.format(str(place), step=1)))  # 2 MiB of 4
    before = contents(place)
    for name, text in refusals(ranks, SAVE.format(str(place), step=2)):
        assert name == "CheckpointFailed"
        assert os.strerror(errno.ENOSPC) in text
        assert str(small_disk) in text
    assert contents(place) == before
    assert os.listdir(place) == ["step-00000001"]
    assert values(ranks.run(f"restored({str(place)!r})")) == ["(1, True)"] * 4


def test_a_directory_that_may_only_be_read_is_told(ranks, small_disk):
    place = small_disk / "run"
    values(ranks.run(SAVE.format(str(place), step=1)))
    before = contents(place)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    for name, text in refusals(ranks, SAVE.format(str(place), step=2)):
        assert name == "CheckpointFailed"
        assert os.strerror(errno.EROFS) in text
        assert str(place) in text
    assert contents(place) == before
    assert values(ranks.run(f"restored({str(place)!r})")) == ["(1, True)"] * 4


def test_a_directory_that_is_a_file_is_told(ranks, tmp_path):
    (tmp_path / "file").write_text("mine")
    for name, text in refusals(ranks, SAVE.format(str(tmp_path / "file"), step=1)):
        assert name == "CheckpointFailed"
        assert str(tmp_path / "file") in text
    assert (tmp_path / "file").read_text() == "mine"
