# /// job
# cause = "the process of rank 2 is killed by SIGKILL"
# ranks = [2]
# at = ["os.kill(os.getpid(), signal.SIGKILL)", "comm.all_reduce(np.ones(4))"]
# says = "SIGKILL|killed"
# ///
import os
import signal

import numpy as np

for step in range(4):
    if rank == 2 and step == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    comm.all_reduce(np.ones(4))
