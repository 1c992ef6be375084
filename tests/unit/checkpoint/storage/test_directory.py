import errno
import os

import numpy as np
import pytest
from fakes.checkpoint_files import PART, save, staged

from jupyter_dist.checkpoint.format.manifest import FORMAT
from jupyter_dist.checkpoint.format.manifest_file import MANIFEST_NAME
from jupyter_dist.checkpoint.storage.directory import (
    find,
    latest,
    missing_parts,
    next_step,
    prune,
    step_name,
    survey,
    sweep,
)
from jupyter_dist.checkpoint.storage.staging import new_id
from jupyter_dist.errors import (
    CheckpointDamaged,
    CheckpointFailed,
    CheckpointNotFound,
    CheckpointTooNew,
)

NEWEST = 100_000_000


@pytest.fixture
def saved(tmp_path):
    """Paths of checkpoints by step."""
    return {step: save(tmp_path, step, np.full(3, step)) for step in (9, 3, NEWEST, 12)}


def damage(path):
    manifest = path / MANIFEST_NAME
    manifest.write_bytes(manifest.read_bytes().replace(b"nodeA", b"nodeB"))


def make_newer(path):
    (path / MANIFEST_NAME).write_bytes(b'{"format":%d}' % (FORMAT + 1))


def numbers(found):
    return [each.step for each in found]


def test_checkpoints_are_found_oldest_first(tmp_path, saved):
    found = find(tmp_path)
    assert numbers(found) == [3, 9, 12, 100_000_000]
    assert [each.path for each in found] == [saved[step] for step in numbers(found)]
    assert repr(found[0]) == f"step 3 in {saved[3]}, saved 2026-11-22T15:04:05Z by 1 rank"


def test_a_directory_that_is_not_there_has_none(tmp_path):
    where = tmp_path / "later"
    assert (find(where), latest(where), next_step(where), sweep(where)) == ([], None, 0, [])
    assert not where.exists()


def test_a_directory_that_is_a_file_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointNotFound, match="Not a directory"):
        latest(tmp_path / "file")
    with pytest.raises(CheckpointFailed, match="Give a directory"):
        sweep(tmp_path / "file")


@pytest.mark.parametrize(
    "spoil", [damage, make_newer, lambda path: os.remove(path / MANIFEST_NAME)]
)
def test_the_newest_that_is_whole_is_the_latest(tmp_path, saved, spoil):
    spoil(saved[100_000_000])
    assert latest(tmp_path).step == 12
    assert numbers(find(tmp_path)) == [3, 9, 12]


def test_why_others_are_passed_over_is_told(tmp_path, saved):
    damage(saved[9])
    make_newer(saved[12])
    seen, problems = survey(tmp_path)
    assert numbers(seen) == [3, 100_000_000]
    assert list(map(type, problems)) == [CheckpointDamaged, CheckpointTooNew]


@pytest.mark.parametrize(
    "name",
    [
        "step-1",
        "step-000000001",
        "step-0000000a",
        "step-00000001x",
        "step-" + 8 * "\N{ARABIC-INDIC DIGIT ONE}",
        ".step-00000001",
    ],
)
def test_a_directory_of_another_name_is_no_checkpoint(tmp_path, saved, name):
    saved[3].rename(tmp_path / name)
    assert numbers(find(tmp_path)) == [9, 12, 100_000_000]


def test_a_link_is_no_checkpoint(tmp_path, saved):
    saved[12].rename(tmp_path / "elsewhere")
    saved[12].symlink_to("elsewhere")
    assert numbers(find(tmp_path)) == [3, 9, 100_000_000]


def test_a_checkpoint_under_the_name_of_another_step_is_damaged(tmp_path, saved):
    saved[12].rename(tmp_path / step_name(13))
    (problem,) = survey(tmp_path)[1]
    assert type(problem) is CheckpointDamaged
    assert step_name(13) in str(problem)


def test_the_next_step_is_after_all_that_are_there_whole_or_not(tmp_path, saved):
    assert next_step(tmp_path) == 100_000_001
    damage(saved[100_000_000])
    assert next_step(tmp_path) == 100_000_001


def test_parts_that_are_missing_or_cut_are_named(tmp_path, saved):
    found = latest(tmp_path)
    assert missing_parts(found) == []
    os.truncate(found.path / PART, 10)
    assert missing_parts(found) == [PART]
    (found.path / PART).unlink()
    assert missing_parts(found) == [PART]


def test_the_newest_are_kept(tmp_path, saved):
    assert prune(tmp_path, 2, NEWEST) == [saved[3], saved[9]]
    assert sorted(os.listdir(tmp_path)) == ["step-00000012", "step-100000000"]
    assert prune(tmp_path, 2, NEWEST) == []


def test_what_is_damaged_or_newer_is_not_counted_and_not_removed(tmp_path, saved):
    damage(saved[100_000_000])
    make_newer(saved[3])
    assert prune(tmp_path, 1, NEWEST) == [saved[9]]
    assert all(saved[step].exists() for step in (3, 12, 100_000_000))


def test_later_steps_are_not_counted_and_not_removed(tmp_path, saved):
    assert prune(tmp_path, 1, 9) == [saved[3]]
    assert [found.step for found in find(tmp_path)] == [9, 12, NEWEST]


@pytest.mark.parametrize("keep_last", [0, -1])
def test_the_newest_is_never_removed(tmp_path, saved, keep_last):
    with pytest.raises(ValueError, match="at least 1"):
        prune(tmp_path, keep_last, NEWEST)
    assert len(find(tmp_path)) == 4


def test_a_directory_that_cannot_be_looked_at_is_told_when_it_is_swept(tmp_path):
    with pytest.raises(CheckpointFailed, match=os.strerror(errno.ENAMETOOLONG)):
        sweep(tmp_path / ("x" * 300))


def test_what_is_being_saved_is_not_swept(tmp_path):
    with staged(tmp_path, 1, new_id()) as staging:
        (staging.path / PART).touch()
        assert sweep(tmp_path) == []
        assert staging.path.exists()


@pytest.mark.parametrize("has_lock", [True, False])
def test_what_nobody_saves_any_more_is_swept(tmp_path, saved, has_lock):
    left = tmp_path / ".saving-step-00000013-x"
    left.mkdir()
    (left / PART).touch()
    if has_lock:
        (left / "lock").touch()
    removing = tmp_path / ".removing-x"
    removing.mkdir()
    others = tmp_path / ".mine"
    others.mkdir()
    assert sweep(tmp_path) == [left]
    assert not left.exists()
    assert not removing.exists()
    assert others.exists()
    assert len(find(tmp_path)) == 4


def test_a_lock_that_is_a_link_is_left_alone(tmp_path):
    left = tmp_path / ".saving-step-00000013-x"
    left.mkdir()
    (left / "lock").symlink_to("/dev/null")
    assert sweep(tmp_path) == []
    assert left.exists()


def test_a_read_only_directory_is_told_and_can_be_read(small_disk, request):
    saved = save(small_disk, 1, np.zeros(3))
    save(small_disk, 2, np.zeros(3))
    (small_disk / ".saving-step-00000003-x").mkdir()
    request.getfixturevalue("read_only_disk")
    assert latest(small_disk).step == 2
    for attempt in (lambda: prune(small_disk, 1, 2), lambda: sweep(small_disk)):
        with pytest.raises(CheckpointFailed, match=os.strerror(errno.EROFS)):
            attempt()
    assert saved.exists()
