# /// job
# cause = "rank 2 gathers where the others reduce"
# ranks = [2]
# at = ["total = comm.all_gather(loss)"]
# says = "all_gather"
# ///
import numpy as np

loss = np.float64(rank)
is_verbose = rank == 2
if is_verbose:
    total = comm.all_gather(loss)
else:
    total = comm.all_reduce(loss)
