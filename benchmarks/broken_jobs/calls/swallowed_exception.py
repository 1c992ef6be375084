# /// job
# cause = "rank 2 catches its own ValueError and so leaves out the all_reduce"
# ranks = [2]
# at = ["return comm.all_reduce(total)"]
# says = "finished|never|ValueError"
# ///
import numpy as np

rows = ["1.5", "2.5", "n/a", "4.0"]


def add_up(text):
    total = np.float64(text)
    return comm.all_reduce(total)


try:
    print(add_up(rows[rank]))
except ValueError:
    pass  # a bad row is no reason to stop
