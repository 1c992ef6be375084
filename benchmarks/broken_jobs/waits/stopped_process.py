# /// job
# cause = "the process of rank 1 is stopped by SIGSTOP"
# ranks = [1]
# at = ["os.kill(os.getpid(), signal.SIGSTOP)", "comm.barrier()  # of the next step"]
# says = "stopped|SIGSTOP"
# ///
import os
import signal

comm.barrier()
if rank == 1:
    os.kill(os.getpid(), signal.SIGSTOP)
comm.barrier()  # of the next step
