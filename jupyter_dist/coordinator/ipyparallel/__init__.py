"""The ipyparallel controller of a cluster, and which ranks are its engines."""
