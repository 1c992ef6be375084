# /// job
# healthy = "each rank works for 2 s on what the rank before it has sent"
# ///
import time

import numpy as np

batch = np.zeros(1000)
if rank > 0:
    batch = comm.recv(batch, source=rank - 1)
time.sleep(2)
if rank < world_size - 1:
    comm.send(batch, dest=rank + 1)
comm.barrier()
