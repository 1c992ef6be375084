# /// job
# healthy = "rank 3 warms up for 6 s while the others wait for it"
# ///
import time

if rank == 3:
    time.sleep(6)
comm.barrier()
