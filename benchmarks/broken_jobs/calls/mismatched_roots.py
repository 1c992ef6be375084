# /// job
# cause = "rank 3 takes another root of the broadcast than the others"
# ranks = [3]
# at = ["weights = comm.broadcast(weights, root=best)"]
# says = "root"
# ///
import numpy as np

scores = [0.3, 0.9, 0.5, 0.9]
best = scores.index(max(scores)) if rank < 3 else len(scores) - 1
weights = np.full(4, scores[rank])
weights = comm.broadcast(weights, root=best)
