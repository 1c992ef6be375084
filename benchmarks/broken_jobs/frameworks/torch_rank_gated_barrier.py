# /// job
# cause = "only rank 0 comes to the barrier"
# ranks = [0]
# at = ["dist.barrier()"]
# also = [1, 2, 3]
# says = "barrier"
# needs = "torch"
# ///
import torch.distributed as dist

dist.init_process_group()
if dist.get_rank() == 0:
    print("writing the checkpoint")
    dist.barrier()
