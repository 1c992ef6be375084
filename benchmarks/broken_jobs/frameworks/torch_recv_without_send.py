# /// job
# cause = "rank 3 never sends what rank 0 receives"
# ranks = [3]
# at = ["dist.recv(part, src=source)"]
# also = [0]
# says = "recv|sent|send"
# needs = "torch"
# ///
import torch
import torch.distributed as dist

dist.init_process_group()
part = torch.zeros(4)
if rank == 0:
    for source in (1, 2, 3):
        dist.recv(part, src=source)
elif rank < 3:
    dist.send(part, dst=0)
