"""The second half of the tenth notebook: who is slow, and where."""

PROFILES = [
    (
        "md",
        """## Who is slow, and where

Four ranks train together, and one of them is slower than the others. All of this is in
[docs/how_to/profiler.md](../docs/how_to/profiler.md).""",
    ),
    (
        "py",
        """%%spmd
import time
import numpy as np

def load(step):
    time.sleep(0.002)
    if rank == 2:
        time.sleep(0.02)          # a slow disk, say
    return np.full(1000, float(step))

def train(steps):
    total = np.zeros(1000)
    for step in range(steps):
        total += comm.all_reduce(load(step))
    return total""",
    ),
    (
        "md",
        "With `--profile` a cell shows below what its ranks did, from begin to end.",
    ),
    ("py", "%%spmd --profile\ntotal = train(60)"),
    (
        "md",
        """Beside a cell that runs, `%dist_profile` looks for some seconds: from here, if it is in
the background, from a second notebook, or from a terminal with `jupyter dist profile`.""",
    ),
    ("py", "%%spmd --background -o job\ntotal = train(10_000)"),
    ("py", "%dist_profile 1s -o profile --trace out.trace.json --speedscope out.speedscope.json"),
    ("raises", "job.cancel()\njob.wait()"),
    ("md", "What is shown is an object, too."),
    (
        "py",
        """print(profile.slowness.ranks, profile.slowness.place.site)
print({rank: f"{own.wait_s:.2f} s of waits" for rank, own in profile.times.items()})""",
    ),
    ("md", "And memory: the lines that hold most of what was allocated meanwhile."),
    (
        "py",
        """%%spmd --profile memory
kept = [np.ones(100_000 * (rank + 1)) for _ in range(5)]""",
    ),
]
