"""The cells of the sixth notebook: torch's DDP, CuPy, and what they share with `comm`."""

CUPY_AND_TORCH = [
    (
        "md",
        """# CuPy and PyTorch

`torch.distributed.init_process_group()` and `cupyx.distributed.init_process_group(n, rank)` work
in a cell without address and port. The part about torch needs no GPU; the part about CuPy says
so where there is none. More: [docs/how_to/torch.md](../docs/how_to/torch.md),
[docs/how_to/cupy_and_mpi.md](../docs/how_to/cupy_and_mpi.md).""",
    ),
    ("py", "%load_ext jupyter_dist\n%dist_start -n 2"),
    (
        "md",
        """## Torch: DDP on real data

The digits of scikit-learn: 1797 pictures of 8 by 8.""",
    ),
    (
        "py",
        """import numpy as np

with np.load("data/digits.npz") as digits:
    order = np.random.default_rng(0).permutation(1797)
    images = digits["images"].reshape(1797, 64)[order].astype(np.float32) / 16
    labels = digits["labels"][order].astype(np.int64)
%dist_push images labels""",
    ),
    (
        "py",
        """%%spmd
import torch
import torch.distributed as dist

dist.init_process_group()
print("rank", dist.get_rank(), "of", dist.get_world_size())
one = torch.full((2,), 10.0**rank)
dist.all_reduce(one)
print("all_reduce:", one.tolist())""",
    ),
    (
        "md",
        """Every rank trains on its half of the pictures, DDP averages the gradients: the weights
stay the same everywhere.""",
    ),
    (
        "py",
        """%%spmd
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(0)
device = f"cuda:{torch.cuda.current_device()}" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10)).to(device)
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
loss_of = nn.CrossEntropyLoss()
mine = slice(rank, 1536, world_size)
x, y = (torch.from_numpy(each[mine]).to(device) for each in (images, labels))
for epoch in range(20):
    for begin in range(0, len(x), 128):
        optimizer.zero_grad()
        loss_of(model(x[begin : begin + 128]), y[begin : begin + 128]).backward()
        optimizer.step()
    if epoch % 5 == 4:
        with torch.no_grad():
            loss = loss_of(model(x), y)
        dist.all_reduce(loss)
        print(f"epoch {epoch}: loss {loss.item() / world_size:.4f}")""",
    ),
    (
        "md",
        """`comm` takes tensors too, beside torch's own group: each has connections of its own.""",
    ),
    (
        "py",
        """%%spmd
for name, weight in model.module.named_parameters():
    comm.assert_equal(weight.detach().cpu().numpy(), name)
test_x, test_y = (torch.from_numpy(each[1536:]).to(device) for each in (images, labels))
right = (model.module(test_x).argmax(dim=1) == test_y).float().mean()
print(f"right on {comm.all_reduce(right.cpu(), 'avg').item():.0%} of pictures it never saw")""",
    ),
    (
        "md",
        """## CuPy

What follows needs a GPU for each rank. Where there is none it says why it is skipped, and does
nothing.""",
    ),
    (
        "py",
        """%%spmd
def why_not():
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except ImportError as error:
        return f"CuPy cannot be imported: {error}"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return str(error)
    return "" if comm.kind == "nccl" else f"comm is a {comm.kind}, which takes no arrays on GPUs"


skipped = next(filter(None, comm.all_gather_object(why_not())), "")
print(f"skipped: {skipped}" if skipped else "every rank has a GPU")""",
    ),
    ("md", "Arrays on GPUs go by NCCL, through the same calls as those of numpy."),
    (
        "py",
        """%%spmd
if skipped:
    print("skipped:", skipped)
else:
    import cupy

    print("all_reduce:", comm.all_reduce(cupy.full(4, 10.0**rank)))""",
    ),
    ("md", "And what is written for `cupyx.distributed` runs as it is."),
    (
        "py",
        """%%spmd
if skipped:
    print("skipped:", skipped)
else:
    from cupyx.distributed import init_process_group

    group = init_process_group(world_size, rank)
    mine, total = cupy.full(4, 10.0**rank), cupy.empty(4)
    group.all_reduce(mine, total)
    print("all_reduce:", total)
    group.stop()""",
    ),
    ("py", "%dist_stop"),
]
