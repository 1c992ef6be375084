# /// job
# cause = "rank 1 has filled its set in another order, so it sums the leaves in another order"
# ranks = [1]
# at = ["comm.all_reduce(np.ones(size))"]
# says = 'float64\[(8|24)\]'
# ///
import numpy as np

leaves = set()
for size in (8, 16, 24) if rank != 1 else (24, 16, 8):
    leaves.add(size)
for size in leaves:
    comm.all_reduce(np.ones(size))
