# /// job
# cause = "ranks 0 and 1 send to each other before either receives"
# ranks = [0, 1]
# at = ["comm.send(halo, dest=partner)"]
# says = "each other"
# ///
import numpy as np

halo = np.zeros(4_000_000)
if rank < 2:
    partner = 1 - rank
    comm.send(halo, dest=partner)
    comm.recv(halo, source=partner)
comm.barrier()
