# /// job
# cause = "rank 1 ends by sys.exit, as if it had nothing more to do"
# ranks = [1]
# at = ["sys.exit(0)"]
# says = "exit|finished|never"
# ///
import sys

import numpy as np

files = [["a", "b"], [], ["c"], ["d"]]
if not files[rank]:
    sys.exit(0)
comm.all_reduce(np.float64(len(files[rank])))
