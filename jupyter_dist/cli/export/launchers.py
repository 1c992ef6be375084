"""How a program knows which rank it is: what each launcher tells it, as code for its beginning."""

_TORCHRUN = """\
rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
local_rank, local_world_size = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
"""
_SCRIPT = """\
rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
local_rank = int(os.environ.get("LOCAL_RANK", "0"))
local_world_size = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
if world_size == 1:
    with socket.create_server(("127.0.0.1", 0)) as free:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
"""
_SRUN = """\
rank, world_size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_STEP_NUM_TASKS"])
local_rank = int(os.environ["SLURM_LOCALID"])
counts = re.findall(r"(\\d+)(?:\\(x(\\d+)\\))?", os.environ["SLURM_STEP_TASKS_PER_NODE"])
tasks = [int(count) for count, times in counts for _ in range(int(times or 1))]  # of each node
local_world_size = tasks[int(os.environ["SLURM_NODEID"])]
nodes = ["scontrol", "show", "hostnames", os.environ["SLURM_STEP_NODELIST"]]
first = subprocess.run(nodes, capture_output=True, text=True, check=True).stdout.split()[0]
port = 20000 + (int(os.environ["SLURM_JOB_ID"]) * 7 + int(os.environ["SLURM_STEP_ID"])) % 10000
os.environ.setdefault("MASTER_ADDR", "127.0.0.1" if len(tasks) == 1 else first)
os.environ.setdefault("MASTER_PORT", str(port))
"""
_MPIRUN = """\
world = MPI.COMM_WORLD
rank, world_size = world.rank, world.size
host = world.Split_type(MPI.COMM_TYPE_SHARED)
local_rank, local_world_size = host.rank, host.size
free = socket.create_server(("", 0))  # held until all know it
name = "127.0.0.1" if local_world_size == world_size else socket.gethostname()
name, port = world.bcast((name, free.getsockname()[1]))
free.close()
os.environ.setdefault("MASTER_ADDR", name)
os.environ.setdefault("MASTER_PORT", str(port))
"""
_VARIABLES = """\
os.environ |= {
    "RANK": str(rank),
    "WORLD_SIZE": str(world_size),
    "LOCAL_RANK": str(local_rank),
    "LOCAL_WORLD_SIZE": str(local_world_size),
}
"""
_ONE_DEVICE = """\
# As in the notebook, a rank sees one device, which is number 0 for it.
devices = [each for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each]
if len(devices) != 1:
    own = devices[local_rank % len(devices)] if devices else str(local_rank)
    os.environ["CUDA_VISIBLE_DEVICES"] = own
"""
_JAX = """\
jax.distributed.initialize(
    f"{os.environ['MASTER_ADDR']}:{int(os.environ['MASTER_PORT']) + 1}", world_size, rank
)
"""

TORCH_ENDING = """\
import torch.distributed

# A process that ends with a group may abort.
if torch.distributed.is_available() and torch.distributed.is_initialized():
    torch.distributed.destroy_process_group()
"""
LAUNCHERS = {
    "torchrun": (_TORCHRUN, ("os",), "torchrun --nproc-per-node=4 {file}"),
    "srun": (_SRUN, ("os", "re", "subprocess"), "srun --ntasks=4 python {file}"),
    "mpirun": (_MPIRUN, ("os", "socket"), "mpirun -n 4 python {file}"),
    "script": (_SCRIPT, ("os", "socket"), "python {file}"),
}
"""By name: code that says which rank it is, what that imports, and how to start four ranks."""


def write_beginning(launcher: str, title: str, file: str, *, forms_jax: bool) -> str:
    """Return the beginning of a program: which rank it is, one device for each, and JAX formed."""
    ranks, modules, command = LAUNCHERS[launcher]
    imports = [f"import {each}\n" for each in modules]
    if launcher == "mpirun":
        imports.append("\nfrom mpi4py import MPI\n")
    parts = [
        f'"""{title}\n\n    {command.format(file=file)}\n"""\n\n',
        *imports,
        f"\n{ranks}{_VARIABLES}{_ONE_DEVICE}",
    ]
    if forms_jax:
        parts.append(f"\nimport jax\n\n{_JAX}")
    return "".join(parts)
