# /// job
# cause = "rank 0 has read another number of epochs"
# ranks = [0]
# at = ['weights = comm.all_reduce(weights + 1.0, "avg")']
# says = "finished|never"
# ///
import os

import numpy as np

if rank != 0:
    os.environ["EPOCHS"] = "3"
weights = np.zeros(4)
for epoch in range(int(os.environ.get("EPOCHS", "2"))):
    weights = comm.all_reduce(weights + 1.0, "avg")
