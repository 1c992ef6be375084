# /// job
# healthy = "two groups make different numbers of steps of different length"
# ///
import time

import numpy as np

half = comm.split(rank // 2)
for step in range(4 if rank < 2 else 2):
    time.sleep(1.5)
    half.all_reduce(np.ones(8))
comm.barrier()
