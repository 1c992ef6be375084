"""The Jupyter server's side: a client of the coordinator that works while kernels are busy."""
