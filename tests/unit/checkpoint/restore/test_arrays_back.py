"""Arrays as they come back: of which library, type and kind, and which part on which rank."""

import re
import types

import numpy as np
import pytest
from fakes.council import restore_on_ranks, save_on_ranks

from jupyter_dist.checkpoint.values.arrays import Shard
from jupyter_dist.errors import CheckpointFailed, UsageError


def save(world_size, directory, tree_of):
    """Save what `tree_of` gives for each rank."""
    return whole(save_on_ranks(world_size, directory, tree_of)[1])


def whole(results):
    for each in results:
        if isinstance(each, Exception):
            raise each
    return results


def load(world_size, directory, like=None):
    """Give what each rank has restored."""
    return whole(restore_on_ranks(world_size, directory, like=like)[1])


def test_small_floats_without_axes_come_back(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    scale = np.full((), 1.5, ml_dtypes.bfloat16)
    save(2, tmp_path, lambda _: {"scale": scale})
    for each in load(2, tmp_path):
        assert each.tree["scale"].dtype == ml_dtypes.bfloat16
        assert float(each.tree["scale"]) == 1.5


@pytest.mark.parametrize("lengths", [(10, 2), (0, 3), (3, 0)])
def test_blocks_of_any_length_go_back_to_the_ranks_that_had_them(tmp_path, lengths):
    rows = np.arange(24.0).reshape(12, 2)[: sum(lengths)]
    blocks = np.split(rows, [lengths[0]])
    save(2, tmp_path, lambda rank: {"rows": Shard(blocks[rank])})
    for like in (None, {"rows": Shard(np.empty((1, 2)))}):
        for rank, each in enumerate(load(2, tmp_path, like)):
            assert np.array_equal(each.tree["rows"].array, blocks[rank])
    three = [each.tree["rows"].array for each in load(3, tmp_path)]
    assert [part.tolist() for part in three] == [part.tolist() for part in np.array_split(rows, 3)]


def test_a_block_that_is_cut_along_another_axis_is_cut_evenly(tmp_path):
    rows = np.arange(24.0).reshape(12, 2)
    save(2, tmp_path, lambda rank: {"rows": Shard(np.split(rows, [10])[rank])})
    like = {"rows": Shard(np.empty((12, 1)), axis=1)}
    columns = [each.tree["rows"].array for each in load(2, tmp_path, like)]
    assert [column.tolist() for column in columns] == [rows[:, :1].tolist(), rows[:, 1:].tolist()]


@pytest.mark.parametrize("number", [np.float64(0.1), np.int32(-3), np.bool_(True)])
def test_bare_numbers_of_numpy_are_bare_again(tmp_path, number):
    save(2, tmp_path, lambda _: {"best": number})
    for each in load(2, tmp_path):
        found = each.tree["best"]
        assert type(found) is type(number)
        assert found == number
        assert {found: 1} == {number: 1}


def test_an_array_without_axes_stays_an_array(tmp_path):
    save(1, tmp_path, lambda _: {"best": np.array(0.1)})
    assert type(load(1, tmp_path)[0].tree["best"]) is np.ndarray


# --- torch -----------------------------------------------------------------------------------


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch is no requirement of the tests")


def test_tensors_are_trained_as_they_were(tmp_path, torch):
    trained = torch.ones(3, requires_grad=True)
    parameters = torch.nn.Parameter(torch.ones(2))
    frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    tree = {
        "plain": torch.ones(3),
        "trained": trained,
        "computed": trained * 2,
        "list": [parameters, frozen],
        "block": Shard(torch.ones(2, requires_grad=True)),
    }
    save(2, tmp_path, lambda _: tree)
    for like in (None, {"trained": torch.zeros(3)}):
        for each in load(2, tmp_path, like):
            found = each.tree
            assert found["trained"].requires_grad
            assert found["trained"].is_leaf
            assert found["block"].array.requires_grad
            assert not found["plain"].requires_grad
            assert not found["computed"].requires_grad
            assert [type(one) for one in found["list"]] == [torch.nn.Parameter] * 2
            assert [one.requires_grad for one in found["list"]] == [True, False]
            found["trained"].sum().backward()
            assert found["trained"].grad.tolist() == [1.0] * 3


def test_blocks_go_to_the_device_of_those_in_like(tmp_path, torch):
    save(1, tmp_path, lambda _: {"block": Shard(torch.ones(2))})
    like = {"block": Shard(torch.empty(2, device="meta"))}
    assert load(1, tmp_path, like)[0].tree["block"].array.device.type == "meta"


@pytest.fixture
def placed(torch, monkeypatch):
    """Make tensors that lie over a mesh of these ranks, of the two that there are."""
    tensors = pytest.importorskip("torch.distributed.tensor")

    class Placed(torch.Tensor):
        def to_local(self):
            return self.local

    def make(whole, ranks, rank):
        place = ranks.index(rank) if rank in ranks else 0
        tensor = torch.Tensor._make_subclass(Placed, whole)
        tensor.placements = (tensors.Shard(0),)
        tensor.local = whole.chunk(len(ranks))[place]
        tensor.device_mesh = types.SimpleNamespace(
            ndim=1,
            mesh=torch.tensor(ranks),
            size=lambda: len(ranks),
            get_local_rank=lambda: place,
        )
        return tensor

    monkeypatch.setattr(tensors, "DTensor", Placed)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    return make


def test_parts_of_a_dtensor_lie_where_its_mesh_has_them(tmp_path, torch, placed):
    whole = torch.arange(5.0)
    save(2, tmp_path, lambda rank: {"w": placed(whole, [0, 1], rank)})
    for each in load(2, tmp_path, {"w": np.empty(5, np.float32)}):
        assert each.tree["w"].tolist() == [0, 1, 2, 3, 4]
    for like in ([0], [1, 0]):
        with pytest.raises(CheckpointFailed, match=re.escape(f"{like}. Accepted")):
            load(2, tmp_path, {"w": placed(whole, like, 0)})


@pytest.mark.parametrize("ranks", [[0], [1, 0]])
def test_a_dtensor_over_some_ranks_or_in_another_order_is_refused(tmp_path, torch, placed, ranks):
    with pytest.raises(UsageError, match=rf"{re.escape(str(ranks))}.*full_tensor"):
        save(2, tmp_path, lambda rank: {"w": placed(torch.arange(4.0), ranks, rank)})


def test_a_dtensor_with_parts_of_other_lengths_is_refused(tmp_path, torch, placed):
    def tree(rank):
        tensor = placed(torch.arange(4.0), [0, 1], rank)
        tensor.local = torch.arange(3.0 - 2 * rank)
        return {"w": tensor}

    with pytest.raises(UsageError, match=r"\(3,\).*full_tensor"):
        save(2, tmp_path, tree)


def test_parts_that_two_ranks_have_are_refused(tmp_path, torch, placed):
    with pytest.raises(UsageError, match=r"\['w'\].*\(4,\).* overlap"):
        save(2, tmp_path, lambda _: {"w": placed(torch.arange(4.0), [0, 1], 0)})
