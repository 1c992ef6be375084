# /// job
# cause = "rank 3 takes the branch without the all_reduce"
# ranks = [3]
# at = ['gradient = comm.all_reduce(gradient, "avg")']
# says = "all_reduce"
# ///
import numpy as np

gradient = np.full(8, 10.0**-rank)
if np.linalg.norm(gradient) > 0.01:  # too small on one rank
    gradient = comm.all_reduce(gradient, "avg")
print("step done")
comm.barrier()
