"""MPI: ranks of the cluster become one world when mpi4py is imported, or learn why not."""
