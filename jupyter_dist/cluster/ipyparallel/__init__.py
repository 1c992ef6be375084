"""ipyparallel beside a cluster: clients of its ranks, and the controller of those."""
