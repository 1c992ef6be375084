# /// job
# healthy = "rank 1 computes for 6 s while the others wait for it"
# ///
import time

if rank == 1:
    until_s = time.monotonic() + 6
    while time.monotonic() < until_s:
        sum(range(10_000))
comm.barrier()
