# /// job
# cause = "rank 3 looks for a valid sample, and all of its samples are invalid"
# ranks = [3]
# at = ["sample = samples[index % len(samples)]", "index += 1", "while True:", "if sample >= 0:"]
# says = "comput|loop"
# ///
import numpy as np


def next_valid(samples, index):
    while True:
        sample = samples[index % len(samples)]
        index += 1
        if sample >= 0:
            return sample


samples = [1.0, 2.0, 3.0] if rank != 3 else [-1.0, -1.0]
total = comm.all_reduce(np.float64(next_valid(samples, 0)))
