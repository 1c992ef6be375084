# /// job
# cause = "rank 2 forks while a thread holds a lock, which its child then waits for"
# ranks = [2]
# at = ["os.waitpid(child, 0)"]
# says = "program|process|child"
# ///
import os
import threading
import warnings

log_lock = threading.Lock()
if rank == 2:
    log_lock.acquire()  # as a thread that writes to a log does
warnings.simplefilter("ignore")
child = os.fork()
if child == 0:
    log_lock.acquire()
    os._exit(0)
os.waitpid(child, 0)
comm.barrier()
