"""The cells of the fourth notebook: a rank dies, and the work goes on."""

LOSE_A_RANK = [
    (
        "md",
        """# Lose a rank, keep the work

A process dies: it ran out of memory, a library crashed, someone killed it. The ranks that live
keep everything, and the one that is gone can be replaced. All of it is in
[docs/explanation/failures.md](../docs/explanation/failures.md).""",
    ),
    ("py", "%load_ext jupyter_dist\n%dist_start -n 4"),
    (
        "md",
        """A cell with `--setup` is remembered: a rank that replaces a lost one runs it first. It
holds what every rank needs, and what can be computed again.""",
    ),
    (
        "py",
        """%%spmd --setup
import os
import signal
import numpy as np


def gradient(weights, batch):
    return weights - batch.mean(axis=0)


batch = np.random.default_rng(rank).normal(loc=rank, size=(1000, 3))
batch.shape""",
    ),
    ("md", "And here is what cannot: the result of work."),
    (
        "py",
        """%%spmd
weights = np.zeros(3)
for step in range(50):
    weights -= 0.1 * comm.all_reduce(gradient(weights, batch), "avg")
print("step", step, "weights", weights.round(3))""",
    ),
    (
        "md",
        """Rank 2 is killed while the others wait for it in a collective. Nobody hangs: they are
released, and the cell ends with what is known of the death.""",
    ),
    (
        "raises",
        """%%spmd
if rank == 2:
    os.kill(os.getpid(), signal.SIGKILL)
weights -= 0.1 * comm.all_reduce(gradient(weights, batch), "avg")""",
    ),
    ("py", "%dist_status"),
    (
        "md",
        """The others live, in the same processes and with what they had. Cells on all ranks are
refused until something is done; on those that live they run.""",
    ),
    (
        "py",
        """%%spmd --ranks 0,1,3
print("weights", weights.round(3))""",
    ),
    ("py", "%dist_explain"),
    ("md", "`%dist_heal` replaces the rank, runs the setup cell there, and says what it lacks."),
    ("py", "%dist_heal"),
    (
        "md",
        """`batch` came with the setup cell. `weights` stand on the survivors only, and `%dist_who`
marks that.""",
    ),
    ("py", "%dist_who weights batch step"),
    ("md", "One of the ranks that have them sends them over."),
    (
        "py",
        """%%spmd
weights = comm.broadcast(weights if rank != 2 else np.empty(3), root=0)
for step in range(50, 100):
    weights -= 0.1 * comm.all_reduce(gradient(weights, batch), "avg")
print("step", step, "weights", weights.round(3))""",
    ),
    ("py", "%dist_who weights batch step\n%dist_explain"),
    ("py", "%dist_stop"),
]
