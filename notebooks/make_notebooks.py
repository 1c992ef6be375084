"""Write the notebooks, so that a change to them reads as text.

python notebooks/make_notebooks.py
"""

from pathlib import Path

import nbformat
from checkpoints import CHECKPOINTS
from cupy_and_torch import CUPY_AND_TORCH
from debug_and_profile import DEBUG, END
from ipyparallel_on_ranks import IPYPARALLEL_ON_RANKS
from jax_from_one_notebook import JAX_FROM_ONE_NOTEBOOK
from lose_a_rank import LOSE_A_RANK
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from profiles import PROFILES
from values_and_background import VALUES_AND_BACKGROUND

HERE = Path(__file__).parent
FIRST_CELL = [
    (
        "md",
        """# The first cell

One notebook, several ranks. `%dist_start` starts an engine for each rank, `%%spmd` runs a cell
on all of them, and what they say comes back grouped: what is the same is shown once.""",
    ),
    ("py", "%load_ext jupyter_dist"),
    ("py", "%dist_start -n 4"),
    ("md", "Every rank runs the cell; `rank`, `world_size` and `comm` need no import."),
    (
        "py",
        """%%spmd
import os
print("the same words from everyone")
print(f"I am rank {rank} of {world_size}, process {os.getpid()}")""",
    ),
    ("md", "`comm` exchanges numpy arrays, with the names and semantics of MPI and NCCL."),
    (
        "py",
        """%%spmd
import numpy as np
mine = np.arange(4.0) * 10**rank
total = comm.all_reduce(mine)
print("all_reduce:", total)
total.sum()""",
    ),
    ("md", "Namespaces stay, cells may `await`, and only some ranks may be asked."),
    (
        "py",
        """%%spmd --ranks 0,3
import asyncio
await asyncio.sleep(0.1 * rank)
f"rank {rank} still has total = {total}\"""",
    ),
    ("md", "Objects move both ways."),
    ("py", "steps = 5\n%dist_push steps"),
    (
        "py",
        """%%spmd
x = np.full(3, float(rank))
for step in range(steps):
    x = comm.all_reduce(x, "max") + 1""",
    ),
    ("py", "%dist_pull x"),
    (
        "md",
        """When a rank raises while the others wait for it, nobody hangs: they are released at once,
the cell fails with the traceback that matters, and the next cell works.""",
    ),
    (
        "raises",
        """%%spmd
if rank == 2:
    1 / 0
comm.barrier()""",
    ),
    (
        "py",
        """%%spmd
comm.barrier()
"all here again\"""",
    ),
    ("py", "%dist_status"),
    (
        "md",
        """The picture is live while the cluster runs. When it has been stopped, a table stays: how
the ranks were at last, and when that was.""",
    ),
    ("py", "%dist_topology"),
    ("py", "%dist_stop"),
]
MANY_HOSTS = [
    (
        "md",
        """# Many hosts

One notebook, three machines. The hosts stand in a file, `cluster.toml`; a list does as well:
`%dist_start --hosts nodeA:2,nodeB:2,nodeC:2`. The agents are started with your own ssh, and dial
home. (`make hosts-lab` gives you three hosts to try this on one machine.)""",
    ),
    ("py", "%load_ext jupyter_dist"),
    ("md", "Before the first start: are the hosts fit for it? Every ✗ names the next step."),
    ("py", "%dist_check --spec cluster.toml"),
    ("py", "%dist_start --spec cluster.toml"),
    ("md", "Ranks are numbered host by host. What is the same on all of them is shown once."),
    (
        "py",
        """%%spmd
import socket
print(f"rank {rank} is number {local_rank} of {local_world_size} on {socket.gethostname()}")""",
    ),
    ("md", "`comm` crosses the hosts; NCCL and gloo are told to use the same network."),
    (
        "py",
        """%%spmd
import os
import numpy as np
total = comm.all_reduce(np.full(3, 10.0**rank))
print("all_reduce:", total)
print("network:", os.environ["NCCL_SOCKET_IFNAME"], os.environ["GLOO_SOCKET_IFNAME"])""",
    ),
    (
        "md",
        """Code that only this machine has is copied to every host, and can be imported there. After
an edit, `--reload` brings the new one into the running ranks.""",
    ),
    (
        "py",
        """from pathlib import Path

code = Path("weather.py")
code.write_text("def forecast(rank):\\n    return f'rain on {rank}'\\n")
%dist_sync weather.py""",
    ),
    (
        "py",
        """%%spmd --ranks 0,5
import weather
weather.forecast(rank)""",
    ),
    (
        "py",
        """code.write_text("def forecast(rank):\\n    return f'sun on {rank}'\\n")
%dist_sync weather.py --reload""",
    ),
    ("py", "%%spmd --ranks 0,5\nweather.forecast(rank)"),
    ("py", "%dist_status"),
    ("py", "%dist_stop"),
]

COLLECTIVES = [
    (
        "md",
        """# Collectives, and mistakes that explain themselves

`comm` exchanges arrays between ranks by the collectives of MPI and NCCL, and objects of any kind.
On ranks with GPUs arrays of CuPy travel by NCCL; this notebook needs no GPU. All of it is in
[docs/reference/collectives.md](../docs/reference/collectives.md).""",
    ),
    ("py", "%load_ext jupyter_dist\n%dist_start -n 4"),
    (
        "py",
        """%%spmd
import numpy as np
rows = np.arange(4.0).reshape(4, 1) + 10 * rank
print("all_reduce:", comm.all_reduce(rank + 1.0, "avg"))
print("all_gather:", comm.all_gather(rank).tolist())
print("row", rank, "of the sum:", comm.reduce_scatter(rows), "from everybody:",
      comm.all_to_all(rows).ravel())""",
    ),
    ("md", "Messages of a group begin together: no order of them can hang."),
    (
        "py",
        """%%spmd
left, right = (rank - 1) % world_size, (rank + 1) % world_size
halo = np.zeros(2, int)
with comm.group():
    for place, peer in enumerate((left, right)):
        comm.recv(halo[place:place + 1], peer)
        comm.send(np.array([rank]), peer)
print("neighbours:", halo)
pair = comm.split(color=rank // 2)
print("sum of my pair:", pair.all_reduce(rank), "->", pair)""",
    ),
    ("md", "Objects need no arrays, and arrive exactly as they were."),
    (
        "py",
        """%%spmd
settings = {"lr": 1 / 3, "steps": 2**40, "tags": {"night", "H200"}} if rank == 0 else None
settings = comm.broadcast_object(settings)
comm.assert_equal(settings, "settings")
settings["steps"]""",
    ),
    (
        "md",
        """When ranks call different things, the error says who, what, and on which line. `--check`
compares calls before anything moves, and finds even two equal calls in another order.""",
    ),
    (
        "raises",
        """%%spmd --check
losses, counts = np.ones(1), np.full(1, 32.0)
if rank == 2:
    counts = comm.all_reduce(counts)
    losses = comm.all_reduce(losses)
else:
    losses = comm.all_reduce(losses)
    counts = comm.all_reduce(counts)""",
    ),
    ("md", "What each rank called last, side by side; the first difference is marked."),
    ("py", "%dist_collectives --last 6"),
    ("md", "The last batch is shorter on one rank. With `--check` that is said at once."),
    (
        "raises",
        """%%spmd --check
for batch in range(3 if rank == 1 else 4):
    loss = comm.all_reduce(np.float32(batch), "avg")""",
    ),
    ("md", "How fast are they? Every result is checked while it is measured."),
    ("py", "%dist_bench --ops all_reduce,all_gather --max 1M"),
    ("md", "And a trace of everything, for <https://ui.perfetto.dev>."),
    ("py", "%dist_timeline collectives.trace.json --force"),
    ("py", "%dist_stop"),
]


def build(cells: list[tuple[str, str]]) -> nbformat.NotebookNode:
    """Make a notebook; cells of the kind `raises` are expected to fail."""
    notebook = new_notebook()
    notebook.metadata.kernelspec = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    for number, (kind, source) in enumerate(cells):
        cell = new_markdown_cell(source) if kind == "md" else new_code_cell(source)
        cell.id = f"cell-{number}"
        if kind == "raises":
            cell.metadata.tags = ["raises-exception"]
        notebook.cells.append(cell)
    return notebook


if __name__ == "__main__":
    nbformat.write(build(FIRST_CELL), HERE / "01_first_cell.ipynb")
    nbformat.write(build(MANY_HOSTS), HERE / "02_many_hosts.ipynb")
    nbformat.write(build(COLLECTIVES), HERE / "03_collectives.ipynb")
    nbformat.write(build(LOSE_A_RANK), HERE / "04_lose_a_rank.ipynb")
    nbformat.write(build(JAX_FROM_ONE_NOTEBOOK), HERE / "05_jax_from_one_notebook.ipynb")
    nbformat.write(build(CUPY_AND_TORCH), HERE / "06_cupy_and_torch.ipynb")
    nbformat.write(build(IPYPARALLEL_ON_RANKS), HERE / "07_ipyparallel_on_ranks.ipynb")
    nbformat.write(build(CHECKPOINTS), HERE / "08_checkpoints.ipynb")
    nbformat.write(build(VALUES_AND_BACKGROUND), HERE / "09_values_and_background.ipynb")
    nbformat.write(build([*DEBUG, *PROFILES, *END]), HERE / "10_debug_and_profile.ipynb")
