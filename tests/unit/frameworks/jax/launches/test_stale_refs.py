"""Which variables belong to a mesh of before, and what is said of them."""

import dataclasses
import itertools
from collections.abc import Mapping

import pytest

from jupyter_dist.frameworks.jax.launches import stale_refs as stale

jax = pytest.importorskip("jax")


class GlobalArray:
    """Stands for one of which this process has only a part."""


@dataclasses.dataclass
class State:
    inner: object


@pytest.fixture
def arrays_of_before(monkeypatch):
    """Judge GlobalArray as such; there are none in one process."""
    own = stale._judge

    def judge(value, devices):
        return "array" if isinstance(value, GlobalArray) else own(value, devices)

    monkeypatch.setattr(stale, "_judge", judge)


def test_nothing_is_said_of_what_is_not_stale():
    namespace = {"x": jax.numpy.ones(2), "n": 1, "f": len, "mesh": jax.make_mesh((1,), ("i",))}
    assert stale.describe_stale(namespace, set(jax.devices())) == ()


def test_meshes_shardings_and_devices_of_before_are_named_and_local_arrays_are_not():
    mesh = jax.make_mesh((1,), ("i",))
    namespace = {
        "local": jax.numpy.ones(2),
        "mesh": mesh,
        "place": jax.NamedSharding(mesh, jax.sharding.PartitionSpec()),
        "inside": {"a": [(jax.devices()[0],)]},
        "abstract": mesh.abstract_mesh,
    }
    assert stale.find_stale(namespace, ()) == ([], ["inside", "mesh", "place"])


@pytest.mark.usefixtures("arrays_of_before")
def test_global_arrays_are_found_in_containers_and_how_to_read_them_is_said():
    cyclic = []
    cyclic.append(cyclic)
    namespace = {
        "x": GlobalArray(),
        "nested": {"a": [(GlobalArray(),)]},
        "state": State(State(GlobalArray())),
        "cyclic": cyclic,
        "text": "x" * 10_000,
        "many": list(range(100_000)),
    }
    assert stale.find_stale(namespace, ()) == (["nested", "state", "x"], [])
    (sentence,) = stale.describe_stale(namespace, ())
    assert "np.asarray(w.addressable_data(0))" in sentence


@pytest.mark.usefixtures("arrays_of_before")
def test_one_name_and_many_names_read_well():
    (one,) = stale.describe_stale({"x": GlobalArray()}, ())
    assert one.startswith("x belongs ")
    (many,) = stale.describe_stale({f"x{k:02}": GlobalArray() for k in range(19)}, ())
    assert "x11 and 7 more " in many


@pytest.mark.usefixtures("arrays_of_before")
def test_of_a_mapping_without_an_end_only_so_much_is_looked_at():
    class Endless(Mapping):
        def __getitem__(self, key):
            return key

        def __iter__(self):
            return itertools.count()

        def __len__(self):
            return 1

        def values(self):
            return itertools.chain(range(1000), [GlobalArray()], itertools.count())

    (sentence,) = stale.describe_stale({"endless": Endless()}, ())
    assert sentence.startswith("endless belongs")


class ClosedFile(Mapping):
    """As one of h5py: what is asked of it is an error."""

    def __getitem__(self, key):
        raise ValueError("closed")

    def __iter__(self):
        raise ValueError("closed")

    def __len__(self):
        return 1


@dataclasses.dataclass
class Lazy:
    value: object = dataclasses.field(init=False)

    def __getattr__(self, name):
        raise RuntimeError(name)


@pytest.mark.usefixtures("arrays_of_before")
def test_variables_that_cannot_be_looked_into_are_passed_over():
    namespace = {"file": ClosedFile(), "lazy": Lazy(), "x": GlobalArray()}
    assert stale.find_stale(namespace, ()) == (["x"], [])
