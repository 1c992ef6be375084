"""The cells of the fifth notebook: JAX on several processes, from the first psum to a lost rank."""

JAX_FROM_ONE_NOTEBOOK = [
    (
        "md",
        """# JAX from one notebook

JAX runs one process for each host or GPU, and all of them have to run the same program: its
guide says that one notebook cannot do that. Here every rank is such a process, `%%spmd` gives
all of them the same cell, and `jax.distributed.initialize()` needs no argument. This notebook
needs no GPU. All of it is in [docs/how_to/jax.md](../docs/how_to/jax.md).""",
    ),
    ("py", "%load_ext jupyter_dist\n%dist_start -n 4"),
    (
        "md",
        """## Devices

A cell on all ranks that imports JAX has it set up across them; the guide's own first line is
welcome too.""",
    ),
    (
        "py",
        """%%spmd
import jax
jax.distributed.initialize()
print("process", jax.process_index(), "of", jax.process_count())
print(jax.device_count(), "devices,", jax.local_device_count(), "of them here")""",
    ),
    ("md", "The guide's example: every device brings a one, and every device gets the sum."),
    (
        "py",
        """%%spmd
xs = jax.numpy.ones(jax.local_device_count())
jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")(xs)""",
    ),
    (
        "md",
        """The same with a mesh and `shard_map`: one global array, of which every rank holds a
row.""",
    ),
    (
        "py",
        """%%spmd
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((jax.device_count(),), ("data",))
mine = np.full((1, 3), 10.0**rank, np.float32)
whole = jax.make_array_from_process_local_data(NamedSharding(mesh, P("data")), mine)
total = jax.jit(
    jax.shard_map(lambda x: jax.lax.psum(x, "data"), mesh=mesh, in_specs=P("data"), out_specs=P())
)(whole)
print("the whole has shape", whole.shape, "- the sum over its rows:", np.asarray(total))
print("here:", whole.addressable_data(0))""",
    ),
    (
        "md",
        """## Training on real data

The digits of scikit-learn: 1797 pictures of 8 by 8. The notebook reads them, ranks get them.""",
    ),
    (
        "py",
        """import numpy as np

with np.load("data/digits.npz") as digits:
    order = np.random.default_rng(0).permutation(1797)
    images = digits["images"].reshape(1797, 64)[order].astype(np.float32) / 16
    labels = digits["labels"][order]
%dist_push images labels""",
    ),
    (
        "md",
        """What a new rank would need stands in a cell with `--setup`. Ranks share each batch of
256: every rank gives its rows, and `make_array_from_process_local_data` makes one array of them.
1536 pictures are six full batches: a last one that is shorter somewhere is what the guide warns
of.""",
    ),
    (
        "py",
        """%%spmd --setup
import os
import signal
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P


def first_weights():
    random = np.random.default_rng(0)
    return {
        "hidden": random.normal(0, 0.1, (64, 32)).astype(np.float32),
        "out": random.normal(0, 0.1, (32, 10)).astype(np.float32),
    }


def shardings():
    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    return NamedSharding(mesh, P("data")), NamedSharding(mesh, P())


def batches(rows, size=256):
    mine = size // world_size
    for begin in range(rank * mine, 1536, size):
        yield tuple(
            jax.make_array_from_process_local_data(rows, each[begin : begin + mine])
            for each in (images, labels)
        )


def loss_of(weights, x, y):
    scores = jax.nn.log_softmax(jnp.tanh(x @ weights["hidden"]) @ weights["out"])
    return -jnp.mean(jnp.sum(jax.nn.one_hot(y, 10) * scores, axis=1))


@jax.jit
def step(weights, x, y):
    loss, slopes = jax.value_and_grad(loss_of)(weights, x, y)
    return jax.tree.map(lambda w, slope: w - 0.5 * slope, weights, slopes), loss""",
    ),
    ("md", "The loss falls, and is the same on all ranks: what all of them say is shown once."),
    (
        "py",
        """%%spmd
rows, everywhere = shardings()
weights = jax.device_put(first_weights(), everywhere)
for epoch in range(10):
    for x, y in batches(rows):
        weights, loss = step(weights, x, y)
    if epoch % 3 == 0:
        print(f"epoch {epoch}: loss {loss:.4f}")
comm.assert_equal(float(loss), "loss")
kept = jax.tree.map(np.asarray, weights)""",
    ),
    (
        "md",
        """`kept` is numpy: it lasts whatever becomes of JAX. `%dist_collectives` knows the
programs that span processes like any other collective.""",
    ),
    ("py", "%dist_collectives --last 3"),
    (
        "md",
        """## A process dies

With JAX alone that is the end of all of them. Here rank 2 is killed in the middle of training,
the others are released from the collective that they wait in, and live.""",
    ),
    (
        "raises",
        """%%spmd
for x, y in batches(rows):
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    weights, loss = step(weights, x, y)""",
    ),
    (
        "md",
        """`%dist_heal` replaces it, and JAX is formed again on all ranks. Arrays that span
processes belonged to what was before: they are named, with what to do.""",
    ),
    ("py", "%dist_heal"),
    (
        "md",
        """The new rank has what the setup cell makes; data come from the notebook, and the
weights from a rank that has them. `kept` is what was good at the end of an epoch.""",
    ),
    ("py", "%dist_push images labels"),
    (
        "py",
        """%%spmd
kept = comm.broadcast_object(kept if rank == 0 else None)
rows, everywhere = shardings()
weights = jax.device_put(kept, everywhere)
for epoch in range(10, 20):
    for x, y in batches(rows):
        weights, loss = step(weights, x, y)
    if epoch % 3 == 0:
        print(f"epoch {epoch}: loss {loss:.4f}")
kept = jax.tree.map(np.asarray, weights)
guesses = (np.tanh(images[1536:] @ kept["hidden"]) @ kept["out"]).argmax(axis=1)
print(f"right on {(guesses == labels[1536:]).mean():.0%} of the pictures it has never seen")""",
    ),
    ("py", "%dist_stop"),
]
