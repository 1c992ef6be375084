# /// job
# cause = "rank 1 has left its tensor on the device meta"
# ranks = [1]
# at = ["dist.all_reduce(weights)"]
# says = "meta"
# needs = "torch"
# ///
import torch
import torch.distributed as dist

dist.init_process_group()
device = "meta" if rank == 1 else "cpu"
weights = torch.ones(4, device=device)
dist.all_reduce(weights)
