"""Saving with ranks as threads: what is agreed, and what hosts without shared storage do."""

import re

import numpy as np
import pytest
from fakes.council import FakeProgress, on_ranks, open_save, save_on_ranks

from jupyter_dist.checkpoint.save.saving import Save, SaveOptions
from jupyter_dist.checkpoint.storage import save_target as storage
from jupyter_dist.checkpoint.storage.directory import find, latest
from jupyter_dist.checkpoint.storage.save_target import Place
from jupyter_dist.checkpoint.values.copy_memory import CopyMemory
from jupyter_dist.errors import CheckpointFailed

HOSTS = ("nodeA", "nodeA", "nodeB", "nodeB")


def save(hosts=HOSTS, **wish):
    """Save an array of each rank; give what each rank got, or its error."""
    return save_on_ranks(len(hosts), "run", lambda rank: np.full(3, rank), hosts, **wish)[1]


@pytest.fixture
def disks(tmp_path, monkeypatch):
    """Each host has a disk of its own; gives where that is."""
    init = Place.__init__

    def on_own_disk(self, rank_group, directory):
        init(self, rank_group, str(tmp_path / rank_group.hosts[rank_group.rank] / directory))

    monkeypatch.setattr(storage.Place, "__init__", on_own_disk)
    return lambda host: tmp_path / host / "run"


def refuse_manifest(_where, _manifest):
    raise CheckpointFailed("No space left on device")


def files(checkpoint):
    return sorted(path.name for path in checkpoint.path.iterdir())


def test_hosts_without_shared_storage_keep_their_parts_and_the_manifest(disks):
    results = save()
    assert [result.path for result in results] == [
        str(disks(host) / "step-00000000") for host in HOSTS
    ]
    on_a, on_b = (latest(disks(host)) for host in ("nodeA", "nodeB"))
    assert on_a.manifest == on_b.manifest
    assert not on_a.manifest.is_shared
    assert files(on_a) == ["arrays-00000.safetensors", "arrays-00001.safetensors", "manifest.json"]
    assert files(on_b) == ["arrays-00002.safetensors", "arrays-00003.safetensors", "manifest.json"]


def test_the_next_step_is_the_next_one_of_any_host(disks):
    save(step=7)
    newcomers = ("nodeC", "nodeB", "nodeB", "nodeB")
    results = save(hosts=newcomers)
    assert [result.step for result in results] == [8] * 4
    assert [found.step for found in find(disks("nodeB"))] == [7, 8]
    assert [found.step for found in find(disks("nodeC"))] == [8]


def test_what_fails_on_one_host_is_left_on_none(disks):
    disks("nodeB").parent.mkdir()
    disks("nodeB").write_text("this is a file")
    results = save()
    assert {type(result) for result in results} == {CheckpointFailed}
    assert all("rank 2: " in str(result) for result in results if result is not results[2])
    assert list(disks("nodeA").iterdir()) == []


def test_a_commit_that_fails_leaves_no_parts_elsewhere(disks, monkeypatch):
    monkeypatch.setattr(storage.Staging, "commit", refuse_manifest)
    results = save()
    assert {type(result) for result in results} == {CheckpointFailed}
    assert [list(disks(host).iterdir()) for host in ("nodeA", "nodeB")] == [[], []]


def test_a_manifest_that_cannot_be_copied_is_a_note(disks, monkeypatch):
    monkeypatch.setattr("jupyter_dist.checkpoint.save.saving.write_manifest", refuse_manifest)
    results = save()
    assert [len(result.notes) for result in results] == [0, 0, 1, 0]
    assert latest(disks("nodeA")) is not None
    assert latest(disks("nodeB")) is None


def test_old_checkpoints_go_on_every_host(disks):
    for _ in range(3):
        save(keep_last=1)
    for host in ("nodeA", "nodeB"):
        assert [found.step for found in find(disks(host))] == [2]


def test_what_was_just_saved_is_kept_where_later_steps_are(disks):
    for step in (10, 20, 30):
        save(step=step)
    first = save(step=15, keep_last=1)
    save(step=16, keep_last=1)
    for host in ("nodeA", "nodeB"):
        assert [found.step for found in find(disks(host))] == [16, 20, 30]
    (note,) = first[0].notes
    assert "step 15 " in note
    assert ": 20, 30." in note
    assert [each.notes for each in first[1:]] == [()] * 3


def test_what_ranks_do_not_all_want_is_named(tmp_path):
    def call(rank_group):
        open_save(rank_group, tmp_path / "run", 1, step=rank_group.rank // 2)

    _, results = on_ranks(4, call)
    (said,) = {str(result) for result in results}
    assert "step=0 on rank 0, but 1 on rank 2" in said
    assert list((tmp_path / "run").iterdir()) == []


def test_a_rank_that_gives_up_after_all_have_agreed_lets_all_others_fail_at_once(tmp_path):
    def call(rank_group):
        saving = open_save(rank_group, tmp_path / "run", rank_group.rank, memory=CopyMemory())
        if rank_group.rank == 1:
            return saving.give_up(KeyboardInterrupt())
        return saving.complete(FakeProgress)

    _, results = on_ranks(3, call)
    assert results[1] is None
    (said,) = {str(results[rank]) for rank in (0, 2)}
    assert re.fullmatch(r"rank 1: step 0 .*\(KeyboardInterrupt\)", said)
    assert list((tmp_path / "run").iterdir()) == []


def test_a_rank_that_gives_up_before_says_nothing(tmp_path):
    def call(rank_group):
        saving = Save(rank_group, SaveOptions(directory=str(tmp_path / "run")), 20.0)
        return saving.give_up(KeyboardInterrupt())

    hall, results = on_ranks(2, call)
    assert (results, hall.topics) == ([None, None], [])


def test_hosts_that_share_storage_with_each_other_alone_save_there_together(tmp_path, monkeypatch):
    """As those of a cluster do whose rank 0 is on a laptop."""
    init = Place.__init__

    def on_storage(self, rank_group, directory):
        where = "own" if rank_group.rank == 0 else "shared"
        init(self, rank_group, str(tmp_path / where / directory))

    monkeypatch.setattr(storage.Place, "__init__", on_storage)
    hosts = ("laptop", "nodeB", "nodeB", "nodeC", "nodeC")
    results = save(hosts=hosts)
    assert [result.step for result in results] == [0] * 5
    on_laptop, shared = (latest(tmp_path / where / "run") for where in ("own", "shared"))
    assert on_laptop.manifest == shared.manifest
    assert files(on_laptop) == ["arrays-00000.safetensors", "manifest.json"]
    assert files(shared) == [
        *(f"arrays-0000{rank}.safetensors" for rank in range(1, 5)),
        "manifest.json",
    ]
