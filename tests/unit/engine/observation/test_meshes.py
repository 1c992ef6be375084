from types import SimpleNamespace

import numpy as np
import pytest

from jupyter_dist.engine.observation.meshes import read_mesh
from jupyter_dist.errors import UsageError


def jax_mesh(processes, names=("data", "model")):
    devices = np.empty(np.shape(processes), object)
    for place, process in np.ndenumerate(processes):
        devices[place] = SimpleNamespace(process_index=int(process))
    return SimpleNamespace(axis_names=names, devices=devices)


def torch_mesh(ranks, names=("data", "model")):
    return SimpleNamespace(mesh_dim_names=names, mesh=np.array(ranks))


@pytest.mark.parametrize("mesh", [jax_mesh([[0, 2], [1, 3]]), torch_mesh([[0, 2], [1, 3]])])
def test_a_mesh_has_names_sizes_and_an_order_of_ranks(mesh):
    found = read_mesh("mesh", {"mesh": mesh}, 4)
    assert (found.names, found.sizes, found.order) == (("data", "model"), (2, 2), (0, 2, 1, 3))


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (jax_mesh([[0, 0], [1, 1]]), "2 devices of rank 0"),
        (jax_mesh([[0, 1]]), "leaves out ranks 2-3"),
        (torch_mesh([0, 1, 2], ("data",)), "leaves out rank 3"),
        (torch_mesh([[0, 1], [2, 3]], None), "mesh_dim_names"),
        (5, "is a int"),
        (SimpleNamespace(axis_names=("data",)), "is a SimpleNamespace"),
    ],
)
def test_what_is_no_mesh_of_all_ranks_is_refused(value, word):
    with pytest.raises(UsageError, match=word):
        read_mesh("mesh", {"mesh": value}, 4)


def test_a_name_that_there_is_not_is_refused():
    with pytest.raises(UsageError, match="'mesh'"):
        read_mesh("mesh", {}, 4)
