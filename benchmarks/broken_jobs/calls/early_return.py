# /// job
# cause = "rank 1 has nothing to evaluate and returns before the all_gather"
# ranks = [1]
# at = ["return comm.all_gather(np.mean(scores))"]
# says = "finished|never"
# ///
import numpy as np


def evaluate(scores):
    if len(scores) == 0:
        return None
    return comm.all_gather(np.mean(scores))


shards = [[0.5, 0.7], [], [0.1], [0.9]]
evaluate(shards[rank])
