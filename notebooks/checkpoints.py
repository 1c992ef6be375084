"""The cells of the eighth notebook: save, lose a rank, go back, go on with fewer ranks."""

CHECKPOINTS = [
    (
        "md",
        """# Checkpoints

What all ranks have is saved together: as a whole or not at all, and so that any number of ranks can
take it up again. All of it is in [docs/how_to/checkpoints.md](../docs/how_to/checkpoints.md).""",
    ),
    ("py", "%load_ext jupyter_dist\n%dist_start -n 4"),
    (
        "md",
        """What every rank needs stands in a cell with `--setup`, also which variables are to be
saved. `weights` are the same on all ranks. Of `velocity` each rank has a block, cut along the first
axis. `noise` is an object of Python, another one on each rank.""",
    ),
    (
        "py",
        """%%spmd --setup
import os
import signal
import numpy as np

checkpoint.mark("weights", "step", "noise")
checkpoint.mark("velocity", axis=0)
target = np.linspace(-1, 1, 8)


def train(steps):
    global weights, velocity, step
    for _ in range(steps):
        seen = weights - target + 0.1 * noise.normal(size=8)
        gradient = comm.all_reduce(seen, "avg")
        velocity = 0.8 * velocity + np.array_split(gradient, world_size)[rank]
        weights = weights - 0.1 * comm.all_gather(velocity).reshape(-1)
        step += 1
    return f"step {step}: distance {np.abs(weights - target).max():.3f}\"""",
    ),
    (
        "py",
        """%%spmd
weights, velocity, step = np.zeros(8), np.zeros(8 // world_size), 0
noise = np.random.default_rng(rank)
print(train(20))""",
    ),
    (
        "md",
        "Without names the marked variables are saved. What is equal on all ranks is stored once.",
    ),
    ("py", "%dist_checkpoint training"),
    (
        "md",
        """In a loop `checkpoint.save` does the same for any tree of arrays. With `wait=False` it
copies them and returns; ranks write while the loop goes on.""",
    ),
    (
        "py",
        """%%spmd
for _ in range(3):
    print(train(5))
    tree = {"weights": weights, "velocity": checkpoint.Shard(velocity)}
    saving = checkpoint.save("checkpoints/loop", tree, step, keep_last=2, wait=False)
saving.wait().step""",
    ),
    ("py", "%dist_checkpoints"),
    ("md", "Rank 2 is killed in the middle of a step."),
    (
        "raises",
        """%%spmd
print(train(5))
if rank == 2:
    os.kill(os.getpid(), signal.SIGKILL)
print(train(5))""",
    ),
    (
        "md",
        """`--resume` goes back to the checkpoint when the rank is replaced, on all ranks: those
that have lived on are steps ahead. `noise` can only be read by pickle, which may run any code, so
it is left out unless one asks for it.""",
    ),
    ("py", "%dist_heal --resume"),
    ("py", "%dist_restore training noise --objects"),
    ("py", "%%spmd\nprint(train(20))\nprint(velocity)"),
    (
        "md",
        """A cluster of two ranks takes up what four have saved: `velocity` is cut again, and what
ranks 2 and 3 had for themselves has nowhere to go, which is said.""",
    ),
    ("py", "%dist_stop\n%dist_start -n 2 --resume checkpoints/training"),
    ("py", "%dist_restore training --objects"),
    ("py", "%%spmd\nprint(step, weights.round(2))\nprint(velocity)"),
    (
        "md",
        """Nothing that is damaged is ever loaded. Someone turns one bit of a file; then all
variables stay as they are, on all ranks.""",
    ),
    (
        "py",
        """from pathlib import Path

part = min(Path("checkpoints/training").glob("step-*/arrays-*.safetensors"))
data = bytearray(part.read_bytes())
data[-1] ^= 1
part.write_bytes(data)""",
    ),
    ("raises", "%dist_restore training"),
    ("py", '%dist_stop\nimport shutil\n\nshutil.rmtree("checkpoints")'),
]
