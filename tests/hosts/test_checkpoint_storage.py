"""Checkpoints of hosts that share no file system: each keeps its part, and all find each other's."""

import errno
import os

import pytest

from tests.matrix import only
from tests.processes.results import values

PLACE = "/root/run"
"""On each host, and on none the same."""
CACHE = "/var/tmp/cache"
DEFINE = """
import numpy as np
def tree(step, rank=rank):
    whole = np.arange(1003 * 7).reshape(1003, 7) * step
    return {
        "own": np.random.default_rng((step, rank)).integers(0, 1 << 30, 1 << 16),
        "shared": np.random.default_rng(step).integers(0, 1 << 30, 1 << 15),
        "blocks": checkpoint.Shard(np.array_split(whole, world_size)[rank]),
        "step": step,
    }
def is_whole(found, step, rank=rank):
    expected = tree(step, rank)
    expected["blocks"], found = expected["blocks"].array, {**found, "blocks": found["blocks"].array}
    return sorted(found) == sorted(expected) and all(
        np.array_equal(found[name], expected[name]) for name in expected
    )
"""
SAVE = f"_ = checkpoint.save({PLACE!r}, tree({{step}}), {{step}}{{options}})"


@pytest.fixture
def saved(start):
    """Two hosts whose ranks have saved steps 1 and 2, each on its own disk; the cluster is over."""

    def save(cache=False, hosts="nodeA:2,nodeB:2"):
        cluster = start(hosts)
        values(cluster.run(DEFINE))
        for step in (1, 2):
            options = f", cache={CACHE!r}" if cache else ""
            values(cluster.run(SAVE.format(step=step, options=options)))
        cluster.stop()

    return save


def restore(cluster, options=""):
    """Restore the newest checkpoint on all ranks; whether each has what it had."""
    values(cluster.run(DEFINE))
    return values(cluster.run(f"is_whole(checkpoint.restore({PLACE!r}{options}), 2)"))


def parts(lab, host, step=2, place=PLACE):
    """The files of a checkpoint on a host, as this machine sees them."""
    return sorted(lab.path(host, f"{place}/step-{step:08d}").iterdir())


def names(lab, host, **options):
    return {path.name for path in parts(lab, host, **options)}


@pytest.mark.slow
def test_each_host_keeps_the_parts_of_its_ranks_and_the_manifest(lab, saved):
    saved()
    one, other = names(lab, "nodeA"), names(lab, "nodeB")
    assert {"manifest.json", "arrays-00000.safetensors", "arrays-00001.safetensors"} <= one
    assert {"manifest.json", "arrays-00002.safetensors", "arrays-00003.safetensors"} <= other
    assert one & other == {"manifest.json"}
    for host in ("nodeA", "nodeB"):
        left = {path.name for path in lab.path(host, PLACE).iterdir()}
        assert left == {"step-00000001", "step-00000002"}, "nothing else is left"


ELSEWHERE = "nodeC:2,nodeA:1,nodeB:1"


@pytest.mark.parametrize(
    "hosts", only([ELSEWHERE], [ELSEWHERE, "nodeA:2,nodeB:2", "nodeB:2,nodeA:2"])
)
def test_ranks_get_their_parts_from_the_hosts_that_have_them(hosts, lab, start, saved):
    saved()
    cluster = start(hosts)
    assert restore(cluster) == ["True"] * 4
    assert not lab.path("nodeC", PLACE).exists(), "restoring writes nothing"


@pytest.mark.slow
def test_a_host_that_is_not_there_is_named_with_what_it_keeps(lab, start, saved):
    saved()
    cluster = start("nodeA:2,nodeC:2")
    values(cluster.run(DEFINE))
    result = cluster.run(f"checkpoint.restore({PLACE!r})")
    for rank in result:
        assert rank.status == "raised"
        assert rank.error.ename in ("CheckpointNotFound", "CheckpointDamaged")
        assert "nodeB" in rank.error.evalue
        assert "arrays-00002.safetensors" in rank.error.evalue


@pytest.mark.slow
def test_a_host_that_cannot_write_fails_all_and_leaves_nothing(lab, start, saved):
    saved()
    before = {host: names(lab, host) for host in ("nodeA", "nodeB")}
    cluster = start("nodeA:2,nodeB:2")
    values(cluster.run(DEFINE))
    lab.make_read_only_home("nodeB")
    result = cluster.run(SAVE.format(step=3, options=""))
    for rank in result:
        assert (rank.status, rank.error.ename) == ("raised", "CheckpointFailed")
        assert os.strerror(errno.EROFS) in rank.error.evalue
        assert rank.rank == 2 or "rank 2" in rank.error.evalue
    for host in ("nodeA", "nodeB"):
        left = {path.name for path in lab.path(host, PLACE).iterdir()}
        assert left == {"step-00000001", "step-00000002"}
        assert names(lab, host) == before[host]
    assert restore(cluster) == ["True"] * 4


@pytest.mark.slow
def test_a_cache_on_local_disks_serves_what_a_directory_has_lost(lab, start, saved):
    saved(cache=True)
    for host in ("nodeA", "nodeB"):
        for path in parts(lab, host):
            if path.name != "manifest.json":
                path.unlink()
    cluster = start("nodeA:2,nodeB:2")
    values(cluster.run(DEFINE))
    without = cluster.run(f"checkpoint.restore({PLACE!r}, 2)")
    assert {rank.status for rank in without} == {"raised"}
    assert {rank.error.ename for rank in without} == {"CheckpointDamaged"}, without[0].error
    assert restore(cluster, f", cache={CACHE!r}") == ["True"] * 4


@pytest.mark.slow
def test_a_host_that_has_replaced_that_of_rank_0_goes_on_with_the_steps(lab, start, saved):
    saved()
    cluster = start("nodeC:2,nodeB:2")
    values(cluster.run(DEFINE))
    step = values(cluster.run(f"checkpoint.save({PLACE!r}, tree(3)).step"))
    assert step == ["3"] * 4
    for host in ("nodeB", "nodeC"):
        assert "manifest.json" in names(lab, host, step=3)
    assert values(cluster.run(f"is_whole(checkpoint.restore({PLACE!r}), 3)")) == ["True"] * 4
