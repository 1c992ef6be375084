# /// job
# cause = "only rank 0 comes to the barrier"
# ranks = [0]
# at = ["comm.barrier()"]
# also = [1, 2, 3]
# says = "barrier"
# ///
import numpy as np

loss = np.float64(rank)
if rank == 0:
    print("saving")
    comm.barrier()
loss = comm.all_reduce(loss)
