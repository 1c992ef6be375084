# /// job
# healthy = "rank 1 waits for 6 s for threads that work"
# ///
import time
from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor(2) as pool:
    waiting = [pool.submit(time.sleep, 6 if rank == 1 else 0.1) for _ in range(2)]
    for each in waiting:
        each.result()
comm.barrier()
