"""Parts that are kept on a local disk."""

import os

import pytest

from jupyter_dist.checkpoint.storage import part_cache as cache
from jupyter_dist.errors import CheckpointFailed

ID = "0123456789abcdef" * 2
NAME = "arrays-00000.safetensors"


@pytest.fixture
def part(tmp_path):
    path = tmp_path / NAME
    path.write_bytes(b"weights")
    return path


def test_a_kept_part_is_found_by_id_name_and_size(tmp_path, part):
    cache.keep(tmp_path / "cache", ID, [part])
    found = cache.find(tmp_path / "cache", ID, NAME, 7)
    assert found.read_bytes() == b"weights"
    assert cache.find(tmp_path / "cache", ID, NAME, 8) is None
    assert cache.find(tmp_path / "cache", ID, "arrays-00001.safetensors", 7) is None
    assert cache.find(tmp_path / "cache", "f" * 32, NAME, 7) is None
    assert cache.find(tmp_path / "nowhere", ID, NAME, 7) is None


def test_a_part_outlives_the_file_it_was_made_of(tmp_path, part):
    cache.keep(tmp_path / "cache", ID, [part])
    part.unlink()
    assert cache.find(tmp_path / "cache", ID, NAME, 7).read_bytes() == b"weights"


@pytest.mark.parametrize("can_link", [True, False])
def test_nothing_but_the_parts_is_left(tmp_path, part, monkeypatch, can_link):
    if not can_link:
        monkeypatch.setattr(os, "link", refuse_link)
    for _ in range(2):  # the second time everything is there already
        cache.keep(tmp_path / "cache", ID, [part])
    assert os.listdir(tmp_path / "cache") == [ID]
    assert os.listdir(tmp_path / "cache" / ID) == [NAME]


def refuse_link(_source, _target):
    raise OSError(18, "Invalid cross-device link")


def test_only_the_newest_two_checkpoints_are_kept(tmp_path, part):
    ids = [f"{index:032x}" for index in range(4)]
    for age, checkpoint_id in enumerate(ids):
        cache.keep(tmp_path / "cache", checkpoint_id, [part])
        os.utime(tmp_path / "cache" / checkpoint_id, (age, age))
    assert sorted(os.listdir(tmp_path / "cache")) == ids[2:]


def test_what_is_not_ours_stays(tmp_path, part):
    folder = tmp_path / "cache"
    (folder / "mine").mkdir(parents=True)
    for index in range(4):
        cache.keep(folder, f"{index:032x}", [part])
    assert (folder / "mine").is_dir()


def test_a_link_in_the_cache_is_no_part(tmp_path, part):
    folder = tmp_path / "cache" / ID
    folder.mkdir(parents=True)
    (folder / NAME).symlink_to(part)
    assert cache.find(tmp_path / "cache", ID, NAME, 7) is None


def test_a_cache_that_cannot_be_written_is_named(tmp_path, part):
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(CheckpointFailed, match=f"{tmp_path / 'cache'}.*`cache`"):
        cache.keep(tmp_path / "cache", ID, [part])
