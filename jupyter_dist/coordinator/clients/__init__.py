"""Notebooks, terminals and servers: who owns the cluster, who observes, what each is told."""
