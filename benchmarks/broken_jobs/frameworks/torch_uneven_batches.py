# /// job
# cause = "rank 2 has one batch fewer"
# ranks = [2]
# at = ["dist.all_reduce(loss)"]
# says = "finished|never"
# needs = "torch"
# ///
import torch
import torch.distributed as dist

dist.init_process_group()
samples = torch.arange(16.0)[: 12 if rank == 2 else 16]
for batch in samples.split(4):
    loss = batch.mean()
    dist.all_reduce(loss)
