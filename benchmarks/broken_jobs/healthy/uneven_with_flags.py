# /// job
# healthy = "ranks have different amounts of work, and agree on when all are done"
# ///
import time

import numpy as np

left = 1 + rank
while comm.all_reduce(np.int64(left > 0)):
    if left:
        time.sleep(1.2)
        left -= 1
