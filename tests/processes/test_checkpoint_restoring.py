"""Checkpoints of four ranks, restored on real clusters of other sizes, whole or not at all."""

from pathlib import Path

import numpy as np
import pytest

from tests.facts import assert_tells
from tests.matrix import only
from tests.reasons import WITHOUT_TORCH

from .results import errors, values
from .test_torch import keep_caches_in

NAMES = """\
import hashlib
import numpy as np

WHOLE = np.random.default_rng(3).normal(size=(12, 6)).astype(np.float32)
WIDE = np.arange(2 << 20, dtype=np.int64) * 7919

def sha(array):
    array = np.ascontiguousarray(array)
    return hashlib.sha256(repr((str(array.dtype), array.shape)).encode() + array.tobytes()).hexdigest()

def cut(array, axis=0):
    return np.array_split(array, comm.size, axis=axis)[comm.rank]

def joined(shard):
    return np.concatenate(comm.all_gather_object(shard.array), axis=shard.axis)
"""
JAX_NAMES = """\
import jax
from jax.experimental.multihost_utils import process_allgather
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

def over_all(array, spec, shape=(-1,), axes=('data',)):
    sharding = NamedSharding(Mesh(np.array(jax.devices()).reshape(shape), axes), spec)
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])
"""


def part_of(path, rank, kind="arrays"):
    (found,) = Path(path).glob(f"step-*/{kind}-{rank:05d}.*")
    return found


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


@pytest.fixture(scope="module")
def saved(shared, tmp_path_factory):
    """A directory with what four ranks had; what is the same on all, cut along axes, and own."""
    directory = tmp_path_factory.mktemp("saved")
    code = f"""\
{NAMES}
tree = {{
    "replicated": WIDE,
    "rows": checkpoint.Shard(cut(WHOLE)),
    "columns": checkpoint.Shard(cut(WHOLE, 1), axis=1),
    "own": np.full(comm.rank + 2, comm.rank, np.uint8),
    "state": {{"step": 12, "rate": 1 / 3, "name": "night", "none": None, "pair": (1, [2.5])}},
    "seed": 1000 + comm.rank,
    "same": {{1, 2, 3}},
    "mine": {{comm.rank}},
}}
checkpoint.save({str(directory)!r}, tree).step
"""
    assert values(shared.cluster.run(code)) == ["0"] * 4
    return directory


@pytest.mark.parametrize("world_size", only([3], [2, 3, 6], at_night=[2]))
def test_what_four_ranks_saved_is_the_same_bit_for_bit_on_others(start, saved, world_size):
    cluster = start(f"localhost:{world_size}")
    code = f"""\
{NAMES}
tree = checkpoint.restore({str(saved)!r})
facts = [
    sha(tree["replicated"]) == sha(WIDE),
    sha(joined(tree["rows"])) == sha(WHOLE),
    sha(joined(tree["columns"])) == sha(WHOLE),
    sha(tree["rows"].array) == sha(cut(WHOLE)),
    tree["state"] == {{"step": 12, "rate": 1 / 3, "name": "night", "none": None, "pair": (1, [2.5])}},
]
if comm.rank < 4:
    facts.append(sha(tree["own"]) == sha(np.full(comm.rank + 2, comm.rank, np.uint8)))
    facts.append(tree["seed"] == 1000 + comm.rank)
else:
    reason = f"rank {{comm.rank}} had no part: only ranks 0-3 saved one"
    facts.append(tree["own"].reason == reason)
    facts.append(tree["seed"].path == "['seed']" and tree["seed"].reason == reason)
facts
"""
    assert values(cluster.run(code)) == [str([True] * 7)] * world_size


def test_what_ranks_had_that_are_no_more_is_said_in_the_cell(start, saved):
    result = start("localhost:2").run(f"_ = checkpoint.restore({str(saved)!r})")
    assert result.ok
    for each in result:
        assert_tells(each.stderr, "4 ranks", " 2 ", "ranks 2-3", "['own'], ['seed']")


def test_like_lays_arrays_out_in_another_way(four, saved):
    code = f"""\
{NAMES}
like = {{"rows": np.empty((12, 6), np.float32), "replicated": checkpoint.Shard(WIDE[:1])}}
tree = checkpoint.restore({str(saved)!r}, like=like)
sha(tree["rows"]) == sha(WHOLE), sha(tree["replicated"].array) == sha(cut(WIDE))
"""
    assert values(four.run(code)) == ["(True, True)"] * 4


# --- JAX -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved_by_jax(shared, tmp_path_factory):
    """A directory with arrays of JAX over four ranks, local ones, and one over two axes."""
    pytest.importorskip("jax")
    directory = tmp_path_factory.mktemp("jax")
    code = f"""\
{NAMES}{JAX_NAMES}
half = WHOLE.astype(jax.numpy.bfloat16)
tree = {{
    "rows": over_all(WHOLE, P("data")),
    "columns": over_all(WHOLE[:, :4].repeat(3, 1), P(None, "data")),
    "everywhere": over_all(half, P()),
    "local": jax.numpy.asarray(WHOLE),
    "own": jax.numpy.full(3, comm.rank),
}}
checkpoint.save({str(directory)!r}, tree, step=1)
square = over_all(WHOLE, P("a", "b"), (2, 2), ("a", "b"))
checkpoint.save({str(directory)!r}, {{"square": square}}, step=0).step
"""
    assert values(shared.cluster.run(code)) == ["0"] * 4
    return directory


@pytest.mark.slow
@pytest.mark.parametrize("world_size", only([3, 6], [2, 3, 6], at_night=[2]))
def test_global_arrays_of_jax_lie_over_the_devices_there_are(start, saved_by_jax, world_size):
    cluster = start(f"localhost:{world_size}", timeout_s=60)
    code = f"""\
{NAMES}{JAX_NAMES}
tree = checkpoint.restore({str(saved_by_jax)!r})
half = WHOLE.astype(jax.numpy.bfloat16)
facts = [
    sha(process_allgather(tree["rows"], tiled=True)) == sha(WHOLE),
    sha(process_allgather(tree["columns"], tiled=True)) == sha(WHOLE[:, :4].repeat(3, 1)),
    tree["rows"].sharding.spec == P("data"),
    tree["columns"].sharding.spec == P(None, "data"),
    len(tree["rows"].sharding.device_set) == comm.size,
    tree["rows"].addressable_shards[0].data.shape == (12 // comm.size, 6),
    sha(tree["everywhere"].addressable_data(0)) == sha(half),
    tree["everywhere"].is_fully_replicated,
    sha(tree["local"]) == sha(WHOLE),
    list(tree["local"].devices()) == jax.local_devices()[:1],
]
facts.append(comm.rank > 3 or tree["own"].tolist() == [comm.rank] * 3)
facts
"""
    assert values(cluster.run(code)) == [str([True] * 11)] * world_size


@pytest.mark.slow
def test_jax_is_formed_where_arrays_lay_over_all_its_devices(start, saved_by_jax):
    two = start("localhost:2", timeout_s=60)
    code = f"tree = checkpoint.restore({str(saved_by_jax)!r})\n"
    code += "len(tree['rows'].sharding.device_set), tree['local'].shape"
    assert values(two.run(code)) == ["(2, (12, 6))"] * 2


@pytest.mark.slow
def test_an_array_over_two_axes_comes_back_on_as_many_devices_and_else_needs_like(
    four, start, saved_by_jax
):
    check = "sha(process_allgather(found, tiled=True)) == sha(WHOLE), tuple(found.sharding.spec)"
    code = f"{NAMES}{JAX_NAMES}found = checkpoint.restore({str(saved_by_jax)!r}, 0)['square']\n"
    assert values(four.run(code + check)) == ["(True, ('a', 'b'))"] * 4
    two = start("localhost:2", timeout_s=60)
    for text in errors(two.run(code)):
        assert text.startswith("CheckpointFailed: ")
        assert_tells(text, "['square']", "(a=2, b=2)", "2 devices")
    code = f"""\
{NAMES}{JAX_NAMES}
sharding = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), P(None, "data"))
like = {{"square": jax.ShapeDtypeStruct((12, 6), np.float32, sharding=sharding)}}
found = checkpoint.restore({str(saved_by_jax)!r}, 0, like=like)["square"]
"""
    assert values(two.run(code + check)) == ["(True, (None, 'data'))"] * 2


# --- torch -----------------------------------------------------------------------------------


TORCH_NAMES = """\
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
whole = torch.arange(22, dtype=torch.float32).reshape(11, 2)
"""
FORM = """\
dist.init_process_group()
mesh = init_device_mesh("cpu", (comm.size,))
"""


@pytest.mark.slow
def test_tensors_and_dtensors_come_back_on_other_ranks(start, tmp_path):
    pytest.importorskip("torch", reason=WITHOUT_TORCH)
    names = f"{keep_caches_in(tmp_path)}\n{TORCH_NAMES}"
    save = f"""\
tree = {{
    "half": whole.to(torch.bfloat16),
    "over": distribute_tensor(whole, mesh, [Shard(0)]),
    "trained": torch.nn.Parameter(distribute_tensor(whole, mesh, [Shard(0)])),
    "own": torch.full((2,), comm.rank),
    "block": checkpoint.Shard(torch.tensor([comm.rank])),
}}
checkpoint.save({str(tmp_path / "run")!r}, tree).step
"""
    four = start("localhost:4")
    assert values(four.run(names + FORM + save)) == ["0"] * 4
    load = f"""\
tree = checkpoint.restore({str(tmp_path / "run")!r})
(
    torch.equal(tree["half"], whole.to(torch.bfloat16)),
    torch.equal(tree["over"].full_tensor(), whole),
    isinstance(tree["trained"], torch.nn.Parameter) and tree["trained"].requires_grad,
    torch.equal(tree["trained"].full_tensor().detach(), whole),
    torch.equal(tree["over"].to_local(), distribute_tensor(whole, mesh, [Shard(0)]).to_local()),
    tree["own"].tolist() == [comm.rank] * 2,
    tree["block"].array.tolist(),
)
"""
    turned = f"""\
turned = DeviceMesh("cpu", [*range(comm.size)][::-1])
checkpoint.save({str(tmp_path / "turned")!r}, distribute_tensor(whole, turned, [Shard(0)]))
"""
    for text in errors(four.run(turned)):
        assert_tells(text, "DTensor", "[3, 2, 1, 0]")
    three = start("localhost:3")
    for text in errors(three.run(names + load)):
        assert_tells(text, "['over']", "DTensor", "torch.distributed")
    wanted = [f"(True, True, True, True, True, True, {block})" for block in ([0, 1], [2], [3])]
    assert values(three.run(FORM + load)) == wanted


# --- what goes wrong on one rank -------------------------------------------------------------

VARIABLES = """\
import numpy as np
w = np.arange(100.0)
own = np.full(50, comm.rank)
word = "saved"
_ = checkpoint.save_variables(DIRECTORY, ["w", "own", "word"])
w, own, word = "now", "now", "now"
"""


@pytest.fixture
def variables(four, tmp_path):
    """A directory with variables of four ranks, which all are something else by now."""
    assert four.run(VARIABLES.replace("DIRECTORY", repr(str(tmp_path)))).ok
    return tmp_path


def assert_refused(cluster, directory, kind, words, **more):
    """Restoring fails on all ranks with these words, and nothing has changed."""
    options = "".join(f", {key}={value!r}" for key, value in more.items())
    result = cluster.run(f"checkpoint.restore_variables({str(directory)!r}{options})")
    for text in errors(result):
        assert text.startswith(f"{kind}: "), text
        assert words in text
    assert values(cluster.run("w, own, word")) == ["('now', 'now', 'now')"] * cluster.world_size


def test_variables_come_back_on_all_ranks(four, variables):
    code = f"report = checkpoint.restore_variables({str(variables)!r})\n"
    code += "sorted(report['restored']), report['not_restored'], report['notes']"
    assert values(four.run(code)) == ["(['own', 'w', 'word'], {}, [])"] * 4
    code = "np.array_equal(w, np.arange(100.0)), own.tolist() == [comm.rank] * 50, word"
    assert values(four.run(code)) == ["(True, True, 'saved')"] * 4


def test_a_flipped_byte_in_one_part_changes_nothing_on_any_rank(four, variables):
    flip(part_of(variables, 2), -1)
    assert_refused(four, variables, "CheckpointDamaged", "arrays-00002", step=0)


def test_an_object_that_one_rank_cannot_load_changes_nothing(four, variables, tmp_path):
    code = f"""\
class Broken:
    def __reduce__(self):
        return (eval, ("1 / 0",))

w, own, word = 1, Broken() if comm.rank == 2 else {{1}}, 3
_ = checkpoint.save_variables({str(tmp_path)!r}, ["w", "own", "word"])
w, own, word = "now", "now", "now"
"""
    assert four.run(code).ok
    words = "['own']"
    result = four.run(f"checkpoint.restore_variables({str(tmp_path)!r}, objects=True)")
    for text in errors(result):
        assert text.startswith("CheckpointFailed: ")
        assert words in text
        assert "ZeroDivisionError" in text
    assert values(four.run("w, own, word")) == ["('now', 'now', 'now')"] * 4


def test_a_rank_that_never_restores_is_named(four, saved):
    code = f"if comm.rank != 2:\n    checkpoint.restore({str(saved)!r})"
    said = errors(four.run(code))
    assert said[2] == "None"
    for rank in (0, 1, 3):
        assert "rank 2" in said[rank]


def test_a_rank_that_dies_while_it_restores_changes_nothing_on_the_others(start, sweep, tmp_path):
    cluster = start("localhost:3")
    code = f"""\
class Deadly:
    def __reduce__(self):
        return (eval, ("__import__('os').kill(__import__('os').getpid(), 9)",))

w, own = 1, Deadly() if comm.rank == 1 else {{1}}
_ = checkpoint.save_variables({str(tmp_path / "run")!r}, ["w", "own"])
w, own = "now", "now"
"""
    assert cluster.run(code).ok
    result = cluster.run(f"checkpoint.restore_variables({str(tmp_path / 'run')!r}, objects=True)")
    assert result[1].status == "lost"
    for rank in (0, 2):
        assert "rank 1" in str(result[rank].error)
    assert values(cluster.run("w, own", ranks=[0, 2])) == ["('now', 'now')"] * 2


def test_arrays_are_sent_in_parts_when_they_are_large(four, tmp_path):
    size = 9 << 20  # in float64 more than two sends
    code = f"""\
import numpy as np
big = np.arange({size}, dtype=np.float64)
_ = checkpoint.save({str(tmp_path)!r}, {{"big": big}})
found = checkpoint.restore({str(tmp_path)!r})["big"]
np.array_equal(found, big), found is not big
"""
    assert values(four.run(code)) == ["(True, True)"] * 4
    assert np.float64().nbytes * size > 2 * (32 << 20)
