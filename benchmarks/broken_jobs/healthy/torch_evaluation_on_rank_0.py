# /// job
# healthy = "rank 0 evaluates for 6 s while the others wait in the barrier"
# needs = "torch"
# ///
import time

import torch
import torch.distributed as dist

dist.init_process_group()
if rank == 0:
    until_s = time.monotonic() + 6
    while time.monotonic() < until_s:
        torch.ones(100, 100) @ torch.ones(100, 100)
dist.barrier()
