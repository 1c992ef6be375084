# /// job
# cause = "the loss of rank 1 is not a number, so it skips a step that the others make"
# ranks = [1]
# at = ['gradient = comm.all_reduce(np.full(3, loss), "avg")']
# says = "finished|never"
# ///
import numpy as np

inputs = np.array([4.0, -1.0, 9.0, 16.0])
for step in range(3):
    with np.errstate(invalid="ignore"):
        loss = np.sqrt(inputs[rank] + step)
    if np.isnan(loss):
        continue
    gradient = comm.all_reduce(np.full(3, loss), "avg")
