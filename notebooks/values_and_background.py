"""The cells of the ninth notebook: objects of ranks, and cells in the background."""

VALUES_AND_BACKGROUND = [
    (
        "md",
        """# Values and background cells

What ranks have can be used here as if it was a variable of the notebook, and a cell may run while
the notebook goes on. All of it is in [docs/how_to/values.md](../docs/how_to/values.md).""",
    ),
    ("py", "%load_ext jupyter_dist\n%dist_start -n 4 -o cluster"),
    ("md", "With `-o` the result of a cell has the object itself, not only its text."),
    (
        "py",
        """%%spmd -o res
import numpy as np
weights = np.random.default_rng(rank % 3).normal(size=(1000, 500))
{"mean": float(weights.mean()), "rank": rank}""",
    ),
    ("py", "res[2].value"),
    ("md", "A variable of all ranks: what each has, ranks with the same together."),
    ("py", "cluster.vars.weights"),
    ("md", "This one is large, so only the part that is asked for travels."),
    ("py", "w = cluster.vars.weights[1]\nw[:2, :3]"),
    ("md", "Numbers and arrays of all ranks are stacked; expressions are evaluated there."),
    (
        "py",
        """cluster.vars.step = 10
cluster.vars.step[3] = 11
print(cluster.vars.step.gather(), cluster.pull("step * rank"))""",
    ),
    ("py", "%dist_push rate=0.1 names=['a','b']\n%dist_pull (rate,names) --ranks 0"),
    ("md", "In the background: the prompt is back at once, and the cell lives on in its place."),
    (
        "py",
        """%%spmd --background -o job
import time
for epoch in range(4):
    time.sleep(0.3)
    print("epoch", epoch)
loss = comm.all_reduce(1.0 / (1 + rank))""",
    ),
    ("py", """print("the notebook goes on;", "done" if job.is_done else "the ranks work")"""),
    ("md", "What is begun later waits for its turn; `wait` is where Run All waits."),
    ("py", "job.wait()\ncluster.vars.loss.gather()"),
    ("md", "A cell that is not wanted any more is taken back, or interrupted."),
    ("py", "%%spmd --background -o endless\nwhile True:\n    time.sleep(0.1)"),
    ("raises", "endless.cancel()\nendless.wait()"),
    ("py", "%dist_stop"),
]
