# /// job
# cause = "rank 2 has one batch fewer"
# ranks = [2]
# at = ['loss = comm.all_reduce(np.sum(batch), "avg")']
# says = "finished|never"
# ///
import numpy as np

samples = np.arange(31.0)[rank::world_size][: 6 if rank == 2 else 8]
batches = np.array_split(samples, -(-len(samples) // 2))
for batch in batches:
    loss = comm.all_reduce(np.sum(batch), "avg")
print("epoch done")
