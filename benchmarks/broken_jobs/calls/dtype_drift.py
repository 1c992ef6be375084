# /// job
# cause = "rank 2 multiplies by a float64 and goes on in float64"
# ranks = [2]
# at = ["comm.all_reduce(weights)"]
# says = "float64"
# ///
import numpy as np

weights = np.ones(16, np.float32)
if rank == 2:
    weights = weights * np.float64([0.5])
comm.all_reduce(weights)
