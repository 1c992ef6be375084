"""ipyparallel beside a cluster: clients of its ranks, and agents on someone's engines."""
