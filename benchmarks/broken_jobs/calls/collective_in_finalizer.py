# /// job
# cause = "rank 0 keeps the pool in a list, so its finalizer, which calls the barrier, does not run"
# ranks = [0]
# at = ["comm.barrier()  # all have let go"]
# also = [1, 2, 3]
# says = "barrier"
# ///
import numpy as np


class Pool:
    def __del__(self):
        comm.barrier()  # all have let go


pool, kept = Pool(), []
if rank == 0:
    kept.append(pool)
del pool
comm.all_reduce(np.ones(3))
