"""The cells of the seventh notebook: programs for ipyparallel, on the ranks."""

IPYPARALLEL_ON_RANKS = [
    (
        "md",
        """# Programs for ipyparallel

Views, `%px` and joblib need no second cluster: the ranks are engines of ipyparallel too, with the
same processes and the same variables. All of it is in
[docs/how_to/ipyparallel.md](../docs/how_to/ipyparallel.md).""",
    ),
    ("py", "%load_ext jupyter_dist\n%dist_start -n 4"),
    ("md", "Cells prepare what tasks will find: here a model, fitted by all ranks together."),
    (
        "py",
        """%%spmd
import numpy as np

rng = np.random.default_rng(rank)
x = rng.normal(size=(2000, 3))
y = x @ np.array([1.0, -2.0, 0.5]) + 0.01 * rng.normal(size=2000)
a, b = comm.all_reduce(x.T @ x), comm.all_reduce(x.T @ y)
weights = np.linalg.solve(a, b)
print("weights", weights.round(2))""",
    ),
    ("md", "The client's engines are the ranks: engine 2 is rank 2."),
    ("py", "%dist_ipyparallel -o client"),
    ("py", """client.ids, client[:].pull("rank", block=True)"""),
    ("md", "Work of uneven size goes to whoever is free, and reads what the cell has left."),
    (
        "py",
        """def error_of(seed):
    import time

    noise = np.random.default_rng(seed)
    time.sleep(0.02 * (seed % 4))
    points = noise.normal(size=(100, 3))
    truth = points @ np.array([1.0, -2.0, 0.5])
    return rank, float(np.abs(points @ weights - truth).max())


balanced = client.load_balanced_view()
results = balanced.map_sync(error_of, range(24))
print("ranks that took part:", sorted({who for who, _ in results}))
print("largest error below 0.01:", max(error for _, error in results) < 0.01)""",
    ),
    ("md", "`%px` is a magic of ipyparallel. What it sets is there in the next cell of ours."),
    ("py", "%px checked = float(np.abs(weights).sum())"),
    (
        "py",
        """%%spmd
gathered = comm.all_gather(np.array([checked]))
print("all ranks agree:", bool(np.ptp(gathered) < 1e-9))""",
    ),
    ("md", "joblib, and with it much of scikit-learn, takes the ranks as its workers."),
    (
        "py",
        """from joblib import Parallel, delayed, parallel_config

balanced.register_joblib_backend("ranks")
with parallel_config(backend="ranks"):
    squares = Parallel()(delayed(pow)(n, 2) for n in range(10))
squares""",
    ),
    ("md", "Leaving ends ipyparallel's controller; the ranks keep everything."),
    ("py", "%dist_ipyparallel --stop"),
    ("py", "%%spmd\ncomm.barrier()\nweights.round(2)"),
    ("py", "%dist_stop"),
]
