# /// job
# cause = "rank 3 writes to a disk that takes no more"
# ranks = [3]
# at = ["os.write(disk, page)"]
# says = "write|disk|without computing"
# ///
import os

taken, disk = os.pipe()  # takes 64 KiB, as a cache does, and then no more
page = bytes(4096)
for _ in range(64 if rank == 3 else 8):
    os.write(disk, page)
comm.barrier()
