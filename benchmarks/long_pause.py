"""What becomes of collectives while a rank is in the debugger for longer than they may wait.

python benchmarks/long_pause.py [--minutes 31] [--only comm,torch,jax]

Rank 1 stops at a breakpoint and goes on after that time. Rank 0 waits for it meanwhile, in a call
that was under way before the stop, or began after it. One cluster for each case, side by side.
"""

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, sleep
from typing import Any

import pexpect

_PROMPT = r"[(]Pdb[)] "
_TOLD = "the call has "
_TO_END_S = 120.0
_BEFORE = {
    "comm": "call = lambda: comm.all_reduce(1.0)",
    "torch": """\
import torch, torch.distributed as dist
dist.init_process_group("gloo")
ones = torch.ones(3)
def call():
    dist.all_reduce(ones)
    return ones[0].item()
""",
    "jax": """\
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("x",))
total = lambda x: jax.lax.psum(x, "x")
psum = jax.jit(jax.shard_map(total, mesh=mesh, in_specs=P("x"), out_specs=P()))
ones = jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), np.ones(1))
def call():
    return float(psum(ones).addressable_data(0)[0])
""",
}
_WARM = "call()\n"
_CELL = """
import time
if rank == 1:
    time.sleep({stop_after_s})
    breakpoint()
else:
    time.sleep({call_after_s})
began_s = time.monotonic()
try:
    call()
    print(f"rank {{rank}}: the call has ended well after {{time.monotonic() - began_s:.0f}} s")
except Exception as error:
    said = " ".join(str(error).split())
    print(f"rank {{rank}}: the call has failed after {{time.monotonic() - began_s:.0f}} s:", said)
    raise
"""
_PROGRAM = """
from jupyter_dist import Cluster
from jupyter_dist.views.cell.cell_output import CellOutputView
with Cluster.start("localhost:{ranks}", spec={spec!r}) as cluster:
    cluster.run({before!r})
    view = CellOutputView(world_size={ranks})
    view.finish(cluster.run({cell!r}, watcher=view))
    after = cluster.run({again!r})
    print("ENDED", *[each.value_repr or each.status for each in after])
"""
_RANKS = 2
_CASES = {
    "comm, under way": ("comm", True, True),
    "torch, under way": ("torch", True, True),
    "torch, begun later": ("torch", True, False),
    "jax, under way": ("jax", True, True),
    "jax, begun later": ("jax", True, False),
    "jax, the first one": ("jax", False, False),
}
"""What is called, whether it was before, and whether it is under way when rank 1 stops."""


def main() -> None:
    """Run all cases side by side, and print what each has said."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=31.0)
    parser.add_argument("--only", default=",".join(_BEFORE))
    parser.add_argument("--spec", help="a spec file, as for another collective_timeout")
    given = parser.parse_args()
    cases = {name: case for name, case in _CASES.items() if case[0] in given.only.split(",")}
    with ThreadPoolExecutor(len(cases)) as pool:
        runs = {
            name: pool.submit(_run, *case, 60 * given.minutes, given.spec)
            for name, case in cases.items()
        }
        for name, run in runs.items():
            sys.stdout.write(f"{name}\n{run.result()}\n")
            sys.stdout.flush()


def _run(way: str, is_warm: bool, is_under_way: bool, pause_s: float, spec: Any) -> str:
    """Have one rank stop for this long; return what was shown from then on."""
    after_s = {"stop_after_s": 3, "call_after_s": 0} if is_under_way else {}
    cell = _CELL.format(**{"stop_after_s": 0, "call_after_s": 3, **after_s})
    before = _BEFORE[way] + ("\n" + _WARM if is_warm else "")
    program = _PROGRAM.format(ranks=_RANKS, spec=spec, before=before, cell=cell, again=_WARM)
    person = pexpect.spawn(sys.executable, ["-c", program], timeout=_TO_END_S, encoding="utf-8")
    try:
        person.expect(_PROMPT)
        began_s = monotonic()
        sleep(pause_s)
        person.sendline("c")
        person.expect(r"ENDED ([^\r\n]*)")
        told = [line for line in person.before.splitlines() if _TOLD in line]
        paused = f"stopped for {monotonic() - began_s:.0f} s"
        return "\n".join(
            f"    {line}" for line in (paused, *told, f"afterwards: {person.match[1]}")
        )
    except (pexpect.TIMEOUT, pexpect.EOF):
        return f"    it did not end: {person.before}"
    finally:
        person.close(force=True)


if __name__ == "__main__":
    main()
