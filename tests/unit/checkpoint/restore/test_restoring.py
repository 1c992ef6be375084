"""Restoring, with ranks as threads and real files."""

import os
import re
import shutil
import threading
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from fakes.council import on_ranks, save_on_ranks
from fakes.council import restore_on_ranks as load

from jupyter_dist.checkpoint.format.structure import State
from jupyter_dist.checkpoint.restore import discovery as looking
from jupyter_dist.checkpoint.restore import restoring
from jupyter_dist.checkpoint.restore.restored_leaves import NotLoaded, NotRestored
from jupyter_dist.checkpoint.restore.restoring import RestoreOptions, restore
from jupyter_dist.checkpoint.restore.restoring_variables import restore_variables
from jupyter_dist.checkpoint.restore.selection import PartSeen, StepSeen
from jupyter_dist.checkpoint.storage.directory import latest
from jupyter_dist.checkpoint.values.arrays import Shard
from jupyter_dist.errors import (
    CheckpointDamaged,
    CheckpointFailed,
    CheckpointNotFound,
    UsageError,
)

TIMEOUT_S = 60.0


def save(world_size, directory, tree_of, **wish):
    """Save what `tree_of` gives for each rank; give the checkpoint's path."""
    _, results = save_on_ranks(world_size, directory, tree_of, **wish)
    return results[0].path


def trees(world_size, directory, **asked):
    return [each.tree for each in load(world_size, directory, **asked)[1]]


def assert_refused(told, kind, *words):
    """All ranks have raised this, each with these words."""
    for each in told[1]:
        assert type(each) is kind, each
        assert all(word in str(each) for word in words), each


def ranks_in(text):
    """Return the ranks that a sentence names."""
    return set(re.findall(r"\branks? \d[\d,-]*", text))


BIG = np.random.default_rng(7).normal(size=(13, 5))


def block(rank, world_size, array=BIG, axis=0):
    return np.array_split(array, world_size, axis=axis)[rank].copy()


def some_tree(rank):
    return {
        "w": np.arange(12, dtype=np.float32).reshape(3, 4),
        "rows": Shard(block(rank, 4)),
        "columns": Shard(block(rank, 4, axis=1), axis=1),
        "own": np.full(rank + 1, rank, np.int16),
        "step": 17,
        "seed": rank,
        "names": ["a", ("b", None, 2.5, float("nan"))],
        "empty": np.empty((0, 3)),
        "scalar": np.float64(0.1),
    }


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 6])
def test_arrays_of_four_ranks_are_the_same_bit_for_bit_on_any_number(tmp_path, world_size):
    save(4, tmp_path, some_tree)
    for rank, tree in enumerate(trees(world_size, tmp_path)):
        wanted = some_tree(min(rank, 3))
        assert tree["w"].tobytes() == wanted["w"].tobytes()
        assert tree["w"].dtype == np.float32
        for name, axis in (("rows", 0), ("columns", 1)):
            assert tree[name].axis == axis
            assert np.array_equal(tree[name].array, block(rank, world_size, axis=axis))
        assert tree["step"] == 17
        assert tree["names"][1][:3] == ("b", None, 2.5)
        assert np.isnan(tree["names"][1][3])
        assert tree["empty"].shape == (0, 3)
        assert tree["scalar"] == 0.1
        if rank < 4:
            assert np.array_equal(tree["own"], wanted["own"])
            assert tree["seed"] == rank
        else:
            assert tree["seed"].path == "['seed']"
            assert {f"rank {rank}", "ranks 0-3"} <= ranks_in(tree["seed"].reason)


def test_what_ranks_had_that_are_no_more_is_told(tmp_path):
    save(4, tmp_path, some_tree)
    for each in load(3, tmp_path)[1]:
        (note,) = each.notes
        assert ranks_in(note) == {"rank 3"}
        assert "['own'], ['seed']" in note


def test_what_new_ranks_have_not_got_is_told(tmp_path):
    save(2, tmp_path, lambda rank: {"seed": rank, "own": [np.full(2, rank)] * 10, "w": BIG})
    *old, new = load(3, tmp_path)[1]
    assert [each.notes for each in old] == [(), ()]
    (note,) = new.notes
    assert note.startswith("['seed'], ['own'][0], ['own'][1], ")
    assert "and 6 more" in note
    assert ranks_in(note) == {"rank 2", "ranks 0-1"}


def test_pickles_that_nobody_asked_for_are_told(tmp_path):
    save(2, tmp_path, lambda rank: {"f": {rank, 7}, "step": 3})
    for each in load(2, tmp_path)[1]:
        (note,) = each.notes
        assert note.startswith("['f'] ")
        assert "pickled set" in note
    assert [each.notes for each in load(2, tmp_path, objects=True)[1]] == [(), ()]


def test_restored_arrays_are_the_ranks_own_and_may_be_changed(tmp_path):
    save(2, tmp_path, lambda _: {"w": BIG})
    first, second = trees(2, tmp_path)
    first["w"][:] = 0
    assert np.array_equal(second["w"], BIG)


def test_bars_count_what_a_rank_reads_and_receives(tmp_path):
    save(2, tmp_path, lambda rank: {"w": BIG, "rows": Shard(block(rank, 2))})
    bars = []

    def call(rank_group):
        restore(rank_group, str(tmp_path), RestoreOptions(timeout_s=TIMEOUT_S))
        bars.extend(rank_group.bars)

    hall, _ = on_ranks(2, call)
    assert hall.sent_bytes == BIG.nbytes, "what all ranks want is read once and sent"
    assert [bar.done_bytes for bar in bars] == [bar.total_bytes for bar in bars]
    assert sum(bar.total_bytes for bar in bars) == 3 * BIG.nbytes
    assert all(bar.is_closed for bar in bars)


# --- which checkpoint ------------------------------------------------------------------------


def test_the_newest_is_restored_and_another_on_demand(tmp_path):
    save(2, tmp_path, lambda _: 3, step=3)
    save(2, tmp_path, lambda _: 12, step=12)
    assert trees(2, tmp_path) == [12, 12]
    assert trees(1, tmp_path, step=3) == [3]


def test_an_unknown_step_names_those_that_are_there_on_all_ranks(tmp_path):
    save(2, tmp_path, lambda _: 1, step=3)
    assert_refused(load(2, tmp_path, step=4), CheckpointNotFound, "step 4. Accepted: 3")


def test_a_directory_that_is_not_there_is_named(tmp_path):
    where = tmp_path / "nowhere"
    assert_refused(load(2, where), CheckpointNotFound, str(where))


def test_a_broken_newest_one_is_passed_over_and_said(tmp_path):
    save(2, tmp_path, lambda _: {"w": BIG, "at": 3}, step=3)
    path = save(2, tmp_path, lambda _: {"w": BIG, "at": 4}, step=4)
    part_of(path, 0).unlink()
    for each in load(2, tmp_path)[1]:
        assert each.tree["at"] == 3
        assert "step 4" in each.notes[0]
    assert_refused(load(2, tmp_path, step=4), CheckpointDamaged)


def test_ranks_that_ask_for_different_things_are_told(tmp_path):
    save(2, tmp_path, lambda _: 1, step=3)

    def call(rank_group):
        return restore(
            rank_group, str(tmp_path), RestoreOptions(step=rank_group.rank + 3, timeout_s=TIMEOUT_S)
        )

    assert_refused(on_ranks(2, call), UsageError, "step 3", "step 4")


# --- damage ----------------------------------------------------------------------------------


def flip(path, at=-1):
    """Flip a bit in a file of its own: it may be a link to another."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.unlink()
    path.write_bytes(data)


def part_of(path, rank, kind="arrays"):
    (found,) = Path(path).glob(f"{kind}-{rank:05d}.*")
    return found


def test_a_flipped_byte_on_one_rank_fails_on_all_with_its_words(tmp_path):
    path = save(4, tmp_path, lambda rank: {"rows": Shard(block(rank, 4))})
    flip(part_of(path, 2))
    told = load(4, tmp_path)
    assert_refused(told, CheckpointDamaged, "arrays-00002", "['rows']")
    assert [str(each).startswith("rank 2: ") for each in told[1]] == [True, True, False, True]


def test_what_is_not_needed_is_not_read(tmp_path):
    path = save(4, tmp_path, lambda rank: {"own": np.full(4, rank), "w": BIG})
    flip(part_of(path, 3))
    own = [tree["own"][0] for tree in trees(2, tmp_path)]
    assert own == [0, 1]


def test_a_missing_object_is_only_missed_when_objects_are_asked_for(tmp_path):
    path = save(2, tmp_path, lambda rank: {"f": {rank, 7}})
    flip(part_of(path, 1, "objects"), -2)
    assert isinstance(trees(2, tmp_path)[1]["f"], NotLoaded)
    assert_refused(load(2, tmp_path, objects=True), CheckpointDamaged)


# --- objects ---------------------------------------------------------------------------------


def test_objects_are_loaded_on_request_only(tmp_path):
    save(2, tmp_path, lambda rank: {"same": {1, 2}, "own": {rank}})
    for tree in trees(2, tmp_path):
        assert tree["same"].type_name == "set"
        assert "objects=True" in tree["own"].reason
        assert tree["own"].path == "['own']"
    loaded = trees(3, tmp_path, objects=True)
    assert [tree["same"] for tree in loaded] == [{1, 2}] * 3
    assert [tree["own"] for tree in loaded[:2]] == [{0}, {1}]
    assert isinstance(loaded[2]["own"], NotRestored)


class Refuses:
    """Can be pickled, and not be loaded."""

    def __reduce__(self):
        return (refuse, ())


def refuse():
    raise RuntimeError("not today")


def test_an_object_that_cannot_be_loaded_on_one_rank_fails_on_all(tmp_path):
    save(2, tmp_path, lambda rank: {"own": Refuses() if rank == 1 else {1}})
    told = load(2, tmp_path, objects=True)
    assert_refused(told, CheckpointFailed, "['own']", "RuntimeError: not today")


class Moments(NamedTuple):
    mu: np.ndarray
    nu: np.ndarray


class Other(NamedTuple):
    mu: int
    other: int


class Nothing(NamedTuple):
    """As optimizers have them that keep nothing."""


def optimizer_state(value):
    return (Nothing(), [Moments({"w": np.full(2, value)}, np.zeros(1))], (1, 2))


def test_named_tuples_are_of_the_types_in_like(tmp_path):
    save(2, tmp_path, lambda _: {"state": optimizer_state(3.0)})
    for tree in trees(2, tmp_path, like_of=lambda _: {"state": optimizer_state(0.0)}):
        nothing, (moments,), pair = tree["state"]
        assert [type(one) for one in (nothing, moments, pair)] == [Nothing, Moments, tuple]
        assert moments.mu["w"].tolist() == [3.0, 3.0]
    for tree in trees(2, tmp_path):
        assert type(tree["state"][1][0]).__name__ == "Moments"


def test_a_named_tuple_in_like_with_other_fields_is_not_taken(tmp_path):
    save(1, tmp_path, lambda _: {"state": Moments(1, 2), "pair": (1, 2)})
    (tree,) = trees(1, tmp_path, like_of=lambda _: {"state": Other(0, 0), "pair": Moments(0, 0)})
    assert type(tree["state"]).__name__ == "Moments"
    assert type(tree["pair"]) is tuple


class Model:
    """Has a state."""

    def __init__(self, weights=None):
        self.weights = weights

    def state_dict(self):
        return {"weights": self.weights}

    def load_state_dict(self, state):
        if state["weights"].shape != (13, 5):
            raise ValueError("a wrong shape")
        self.weights = state["weights"]


def test_objects_take_their_state_in_place(tmp_path):
    save(2, tmp_path, lambda _: {"model": Model(BIG), "step": 4})
    models = [Model(), Model()]
    found = trees(2, tmp_path, like_of=lambda rank: {"model": models[rank]})
    for rank, tree in enumerate(found):
        assert tree["model"] is models[rank]
        assert np.array_equal(models[rank].weights, BIG)
    (alone,) = trees(1, tmp_path)
    assert isinstance(alone["model"], State)
    assert np.array_equal(alone["model"].value["weights"], BIG)


# --- like ------------------------------------------------------------------------------------


def test_like_says_how_arrays_shall_lie(tmp_path):
    save(4, tmp_path, lambda rank: {"rows": Shard(block(rank, 4)), "w": BIG})

    def like_of(rank):
        return {"rows": np.empty(BIG.shape), "w": Shard(np.empty((1, 1)), axis=1)}

    for rank, tree in enumerate(trees(3, tmp_path, like_of=like_of)):
        assert np.array_equal(tree["rows"], BIG)
        assert np.array_equal(tree["w"].array, block(rank, 3, axis=1))


@pytest.mark.parametrize(
    ("like", "words"),
    [
        ({"w": np.empty((2, 2))}, "['w'] in `like` is float64 of shape (2, 2), and the checkpoint"),
        ({"w": np.empty((13, 5), "f4")}, "the checkpoint has float64 of shape (13, 5)"),
        ({"v": BIG}, "['v'] in `like` is not in the checkpoint. Accepted: ['w'], ['own']"),
        ({"own": Shard(BIG[:, 0].astype("i8"))}, "its parts are not one array"),
    ],
)
def test_a_like_that_does_not_fit_on_one_rank_fails_on_all(tmp_path, like, words):
    save(2, tmp_path, lambda rank: {"w": BIG, "own": np.arange(rank, rank + 2)})
    told = load(2, tmp_path, like_of=lambda rank: like if rank == 0 else None)
    assert_refused(told, CheckpointFailed, words)


# --- storage of each host --------------------------------------------------------------------


def apart(tmp_path, path):
    """Give two hosts a directory each, with the parts of one rank; the first has the manifest."""
    folders = []
    for rank in range(2):
        folder = tmp_path / f"host{rank}"
        shutil.copytree(path, folder / "step-00000000")
        part_of(folder / "step-00000000", 1 - rank).unlink()
        folders.append(folder)
    (folders[1] / "step-00000000" / "manifest.json").unlink()
    return folders


@pytest.mark.parametrize("is_swapped", [False, True])
def test_parts_of_other_hosts_come_from_ranks_there(tmp_path, monkeypatch, is_swapped):
    path = save(2, tmp_path / "all", lambda rank: {"own": np.full(5, rank), "w": BIG})
    folders = apart(tmp_path, path)
    homes = {}
    monkeypatch.setattr(os.path, "expanduser", lambda _: str(homes[threading.get_ident()]))

    def call(rank_group):
        homes[threading.get_ident()] = folders[
            1 - rank_group.rank if is_swapped else rank_group.rank
        ]
        return restore(rank_group, "~/run", RestoreOptions(timeout_s=TIMEOUT_S))

    hall, results = on_ranks(2, call, ["nodeA", "nodeB"])
    for rank, each in enumerate(results):
        assert np.array_equal(each.tree["own"], np.full(5, rank))
        assert np.array_equal(each.tree["w"], BIG)
    assert hall.sent_bytes == BIG.nbytes + (2 * 5 * 8 if is_swapped else 0)


def test_a_part_on_no_host_is_named_with_the_host_that_wrote_it(tmp_path):
    path = save(2, tmp_path, lambda rank: {"own": np.full(5, rank)})
    part_of(path, 1).unlink()
    told = load(2, tmp_path, step=0)
    assert_refused(told, CheckpointDamaged, "arrays-00001.safetensors", "nodeA")


# --- cache -----------------------------------------------------------------------------------


@pytest.mark.parametrize("spoilt", ["run/step-*", "cache/*"])
@pytest.mark.parametrize("how", [flip, Path.unlink])
def test_a_part_that_is_whole_in_the_cache_or_in_the_directory_is_enough(tmp_path, spoilt, how):
    cache = str(tmp_path / "cache")
    save(2, tmp_path / "run", lambda rank: {"own": np.full(5, rank)}, cache=cache)
    for rank in range(2):
        how(part_of(*tmp_path.glob(spoilt), rank))
    found = trees(2, tmp_path / "run", cache=cache)
    assert [tree["own"][0] for tree in found] == [0, 1]
    if spoilt.startswith("run"):
        assert_refused(load(2, tmp_path / "run"), CheckpointDamaged)


# --- variables -------------------------------------------------------------------------------


def put_back(world_size, directory, names=None, namespace_of=lambda _: {}, **asked):
    spaces = [namespace_of(rank) for rank in range(world_size)]
    asked = RestoreOptions(**{"timeout_s": TIMEOUT_S, **asked})
    _, results = on_ranks(
        world_size,
        lambda rank_group: restore_variables(
            rank_group, spaces[rank_group.rank], str(directory), names, asked
        ),
    )
    return spaces, results


def save_some(directory, **more):
    return save(
        2,
        directory,
        lambda rank: {
            "w": BIG,
            "part": Shard(block(rank, 2)),
            "seed": rank,
            "tags": {"one", "two"},
            "model": Model(BIG),
            "config": {"lr": 0.1, "hooks": [{1}]},
        },
        kind="variables",
        marks={"part": 0},
        **more,
    )


def test_variables_come_back_and_what_does_not_has_a_reason(tmp_path):
    path = save_some(tmp_path)
    spaces, reports = put_back(3, tmp_path, namespace_of=lambda _: {"tags": "mine"})
    for rank, (space, report) in enumerate(zip(spaces, reports, strict=True)):
        assert np.array_equal(space["w"], BIG)
        assert np.array_equal(space["part"], block(rank, 3)), "marked ones are plain again"
        assert report["path"] == str(path)
        assert report["step"] == 0
        assert space["tags"] == "mine", "what cannot be loaded replaces nothing"
        assert "--objects" in report["not_restored"]["tags"]
        assert report["not_restored"]["config"].startswith("['hooks'][0]: ")
        assert "Model" in report["not_restored"]["model"]
        assert ("seed" in report["restored"]) == (rank < 2)
    assert ranks_in(reports[2]["not_restored"]["seed"]) == {"rank 2", "ranks 0-1"}
    assert len({report["seconds"] for report in reports}) == 1


def test_named_tuples_are_of_the_types_that_are_there(tmp_path):
    names = {"opt": optimizer_state(3.0), "last": Moments(1, 2)}
    save(2, tmp_path, lambda _: names, kind="variables")
    cyclic = []
    cyclic.append(cyclic)
    spaces, _ = put_back(2, tmp_path, None, lambda _: {"opt": optimizer_state(0.0), "last": cyclic})
    for space in spaces:
        assert [type(one) for one in space["opt"][:2]] == [Nothing, list]
        assert type(space["opt"][1][0]) is Moments
        assert space["last"] == (1, 2)


def test_objects_that_are_there_take_their_state(tmp_path):
    save_some(tmp_path)
    spaces, reports = put_back(
        2, tmp_path, ["model", "tags"], lambda _: {"model": Model()}, objects=True
    )
    for space, report in zip(spaces, reports, strict=True):
        assert np.array_equal(space["model"].weights, BIG)
        assert space["tags"] == {"one", "two"}
        assert set(space) == {"model", "tags"}
        assert report["restored"] == ["model", "tags"]
        assert report["not_restored"] == {}


class Stubborn(Model):
    """Takes no state."""

    def load_state_dict(self, state):
        raise ValueError("no")


def test_an_object_that_refuses_its_state_keeps_names_away_on_all_ranks(tmp_path):
    save_some(tmp_path)
    spaces, results = put_back(
        2, tmp_path, None, lambda rank: {"model": Stubborn() if rank else Model()}
    )
    assert "ValueError: no" in str(results[0])
    assert all(set(space) == {"model"} for space in spaces)


def test_a_flipped_byte_leaves_every_namespace_as_it_was(tmp_path):
    path = save_some(tmp_path)
    flip(part_of(path, 1))
    spaces, results = put_back(2, tmp_path, namespace_of=lambda _: {"seed": "kept"})
    assert {type(each) for each in results} == {CheckpointDamaged}
    assert spaces == [{"seed": "kept"}] * 2


def test_a_name_that_was_not_saved_is_refused_with_those_that_were(tmp_path):
    save_some(tmp_path)
    told = put_back(2, tmp_path, ["w", "nothing"])
    assert_refused(told, CheckpointNotFound, "'nothing'. Accepted: w, part, seed")


def test_a_tree_is_not_put_into_a_namespace(tmp_path):
    save(2, tmp_path, lambda _: {"w": BIG})
    assert_refused(put_back(2, tmp_path), CheckpointFailed, "checkpoint.restore(directory)")


def test_a_part_beside_the_manifest_of_another_checkpoint_is_not_counted_on(tmp_path):
    """It may have the same name and size, and other numbers."""
    save(1, tmp_path / "run", lambda _: np.arange(9))
    manifest = latest(tmp_path / "run").manifest
    (part,) = manifest.files
    parts = (PartSeen(part.name, part.nbytes),)
    looks = [
        looking._Look("run", None, (StepSeen(0, parts, checkpoint_id),))
        for checkpoint_id in (manifest.id, "0" * 32, "")
    ]
    seen = looking._seen_by_rank(0, manifest, looks)
    assert seen == (frozenset({part.name}), frozenset(), frozenset({part.name}))


@pytest.mark.parametrize(
    ("formed", "said", "forms"),
    [
        ((False, CheckpointFailed("JAX is not installed")), "JAX is not installed", 0),
        ((True, False), "JAX is formed across ranks, but not on rank 1", 0),
        ((False, False), "", 2),
        ((True, True), "", 0),
    ],
)
def test_ranks_form_jax_when_all_of_them_can(tmp_path, monkeypatch, formed, said, forms):
    """To form it they wait for each other, where nobody hears of an error."""
    save(2, tmp_path / "run", np.full(3, 1).__mul__)
    rank_here, calls = threading.local(), []

    def has_formed():
        if isinstance(found := formed[rank_here.number], Exception):
            raise found
        return found

    monkeypatch.setattr(restoring, "is_over_devices", lambda *_: True)
    monkeypatch.setattr(restoring, "has_formed_jax", has_formed)
    monkeypatch.setattr(restoring, "form_jax", lambda: calls.append(rank_here.number))

    def call(rank_group):
        rank_here.number = rank_group.rank
        return restore(rank_group, str(tmp_path / "run"), RestoreOptions(timeout_s=TIMEOUT_S))

    _, results = on_ranks(2, call)
    assert len(calls) == forms
    if said:
        assert_refused((None, results), CheckpointFailed, said)
    else:
        assert [result.tree.tolist() for result in results] == [[0, 0, 0], [1, 1, 1]]
