# /// job
# cause = "the last batch of rank 3 has fewer rows"
# ranks = [3]
# at = ["logits = comm.all_gather(batch)"]
# says = '\[2, ?4\]'
# ///
import numpy as np

data = np.zeros((30, 4))
shard = data[rank * 8 : rank * 8 + 8]
for start in range(0, len(shard), 4):
    batch = shard[start : start + 4]
    logits = comm.all_gather(batch)
