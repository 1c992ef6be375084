import contextlib
import errno
import itertools
import os

import numpy as np
import pytest
from fakes.checkpoint_files import PART, fill, make_manifest, save, staged

from jupyter_dist.checkpoint.format.manifest_file import MANIFEST_NAME, write_manifest
from jupyter_dist.checkpoint.format.part_file import PartReader
from jupyter_dist.checkpoint.storage.directory import find, latest, sweep
from jupyter_dist.checkpoint.storage.staging import STEPS, Staging, new_id
from jupyter_dist.errors import CheckpointFailed, UsageError

ARRAY = np.arange(5.0)


def begin(directory, step=1):
    """Give a staging directory with its part file, and the manifest for it."""
    manifest = make_manifest(step)
    staging = Staging(directory, step, manifest.id).make()
    return staging, fill(staging.path, manifest, ARRAY)


def test_a_checkpoint_is_found_when_it_has_its_name_and_not_before(tmp_path):
    staging, manifest = begin(tmp_path)
    write_manifest(staging.path, manifest)
    assert find(tmp_path) == []
    staging.commit(manifest)
    found = latest(tmp_path)
    assert found.path == staging.final
    assert sorted(os.listdir(found.path)) == [PART, MANIFEST_NAME]
    assert os.listdir(tmp_path) == ["step-00000001"]
    (leaf,) = found.manifest.leaves
    (part,) = found.manifest.files
    with PartReader(found.path / PART, part) as reader:
        assert reader.read(leaf.by_rank[0].pieces[0]).tobytes() == ARRAY.tobytes()


def test_directories_above_it_are_made(tmp_path):
    assert save(tmp_path / "a" / "b", 0, ARRAY) == tmp_path / "a" / "b" / "step-00000000"


def test_what_is_discarded_leaves_nothing(tmp_path):
    staging, _ = begin(tmp_path)
    staging.discard()
    staging.discard()
    assert os.listdir(tmp_path) == []


def test_an_error_on_the_way_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), staged(tmp_path, 1, new_id()):
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def test_a_committed_one_stays_when_its_staging_is_discarded(tmp_path):
    staging, manifest = begin(tmp_path)
    staging.commit(manifest)
    staging.discard()
    assert latest(tmp_path).step == 1


def test_a_step_that_is_there_is_refused_before_anything_is_written(tmp_path):
    path = save(tmp_path, 1, ARRAY)
    with pytest.raises(CheckpointFailed, match=path.name):
        Staging(tmp_path, 1, new_id()).make()
    assert os.listdir(tmp_path) == [path.name]


def test_of_two_that_save_the_same_step_the_first_stays(tmp_path):
    first, first_manifest = begin(tmp_path)
    second, second_manifest = begin(tmp_path)
    first.commit(first_manifest)
    with pytest.raises(CheckpointFailed, match=second.final.name):
        second.commit(second_manifest)
    second.discard()
    assert latest(tmp_path).manifest.id == first_manifest.id
    assert os.listdir(tmp_path) == ["step-00000001"]


@pytest.mark.parametrize("is_link", [True, False])
def test_a_file_or_link_with_its_name_is_not_overwritten(tmp_path, is_link):
    staging, manifest = begin(tmp_path)
    if is_link:
        (tmp_path / "target").mkdir()
        staging.final.symlink_to("target")
    else:
        staging.final.write_text("mine")
    for attempt in (lambda: staging.commit(manifest), lambda: begin(tmp_path)):
        with pytest.raises(CheckpointFailed, match=staging.final.name):
            attempt()
    assert staging.final.is_symlink() == is_link
    staging.discard()


def test_a_directory_of_somebody_else_is_not_replaced(tmp_path):
    (tmp_path / "step-00000001").mkdir()
    (tmp_path / "step-00000001" / "notes.txt").touch()
    with pytest.raises(CheckpointFailed, match="without a manifest"):
        begin(tmp_path)


@pytest.mark.parametrize("is_half_written", [False, True])
def test_parts_whose_manifest_was_never_whole_make_room(tmp_path, is_half_written):
    left, manifest = begin(tmp_path)
    left.publish()
    if is_half_written:
        (left.final / f".manifest.json.{manifest.id}").write_text("{")
    assert find(tmp_path) == []
    staging, manifest = begin(tmp_path)
    staging.commit(manifest)
    assert os.listdir(tmp_path) == ["step-00000001"]
    assert latest(tmp_path).manifest.id == manifest.id


def test_parts_on_another_host_get_a_manifest_later(tmp_path):
    staging, manifest = begin(tmp_path)
    staging.publish()
    assert os.listdir(staging.final) == [PART]
    write_manifest(staging.final, manifest)
    assert latest(tmp_path).step == 1
    staging.withdraw()
    assert latest(tmp_path).step == 1, "it has its manifest"


def test_parts_that_will_get_no_manifest_are_withdrawn(tmp_path):
    staging, _ = begin(tmp_path)
    staging.publish()
    staging.withdraw()
    assert os.listdir(tmp_path) == []


def test_one_that_was_never_published_withdraws_nothing(tmp_path):
    staging, _ = begin(tmp_path)
    staging.withdraw()
    assert staging.path.exists()
    staging.discard()


def test_a_maker_that_has_ended_leaves_what_the_next_one_sweeps(tmp_path):
    staging, _ = begin(tmp_path)
    staging._lock.close()  # as the kernel does for a killed process
    assert sweep(tmp_path) == [staging.path]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("step", [-1, STEPS])
def test_a_step_that_no_name_can_have_is_refused(tmp_path, step):
    with pytest.raises(UsageError, match="Accepted: numbers from 0"):
        Staging(tmp_path, step, new_id()).make()


def test_the_largest_step_is_found_again(tmp_path):
    save(tmp_path, STEPS - 1, ARRAY)
    assert latest(tmp_path).step == STEPS - 1


def test_a_path_below_a_file_is_told(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(CheckpointFailed, match="Give a directory, not a file"):
            Staging(path, 1, new_id()).make()


def test_a_disk_without_room_for_another_name_leaves_nothing(small_disk):
    with contextlib.suppress(OSError):
        for number in itertools.count():
            (small_disk / f"{number}").touch()
    (small_disk / "0").unlink()  # room for the directory, none for its lock
    with pytest.raises(CheckpointFailed, match=os.strerror(errno.ENOSPC)):
        Staging(small_disk, 1, new_id()).make()
    assert [name for name in os.listdir(small_disk) if not name.isdecimal()] == []


def fill_up(path):
    with path.open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(4096))


def test_a_disk_that_is_full_at_the_end_leaves_the_one_before(small_disk):
    save(small_disk, 1, ARRAY)
    staging, manifest = begin(small_disk, 2)
    fill_up(small_disk / "filler")
    with pytest.raises(CheckpointFailed, match=os.strerror(errno.ENOSPC)):
        staging.commit(manifest)
    staging.discard()
    assert latest(small_disk).step == 1
    assert sorted(os.listdir(small_disk)) == ["filler", "step-00000001"]


def test_a_read_only_disk_is_told(read_only_disk):
    with pytest.raises(CheckpointFailed, match=os.strerror(errno.EROFS)):
        Staging(read_only_disk / "new" / "one", 1, new_id()).make()
    with pytest.raises(CheckpointFailed, match=os.strerror(errno.EROFS)):
        Staging(read_only_disk, 1, new_id()).make()
