# /// job
# cause = "a worker of the loader of rank 1 was killed, as for memory, and its result never comes"
# ranks = [1]
# at = ["batch = loader.map(load, range(4))"]
# says = "result of another|worker"
# ///
import multiprocessing
import os
import signal


def load(index):
    if rank == 1 and index == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return index


with multiprocessing.get_context("fork").Pool(2) as loader:
    batch = loader.map(load, range(4))
comm.barrier()
