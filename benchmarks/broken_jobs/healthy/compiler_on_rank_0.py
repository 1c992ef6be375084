# /// job
# healthy = "rank 0 builds an extension for 6 s, as most programs have it"
# ///
import subprocess

if rank == 0:
    subprocess.run(["sleep", "6"], check=True)  # make
comm.barrier()
