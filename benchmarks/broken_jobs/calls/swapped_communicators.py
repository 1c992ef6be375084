# /// job
# cause = "ranks 1 and 2 use the two communicators in the other order, so all wait in a circle"
# ranks = [1, 2]
# at = ["columns.barrier()  # first", "rows.barrier()  # second"]
# also = [0, 3]
# says = "each other"
# ///
rows, columns = comm.split(rank // 2), comm.split(rank % 2)
if rank in (0, 3):
    rows.barrier()
    columns.barrier()
else:
    columns.barrier()  # first
    rows.barrier()  # second
