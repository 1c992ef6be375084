# /// job
# cause = "rank 0 waits for an answer on a pipe into which no one writes"
# ranks = [0]
# at = ["answer = answers.readline()"]
# says = "readline|network|waits"
# ///
import os

reading, writing = os.pipe()
if rank == 0:
    print("overwrite the checkpoint? [y/n]")
    with os.fdopen(reading) as answers:
        answer = answers.readline()
comm.barrier()
