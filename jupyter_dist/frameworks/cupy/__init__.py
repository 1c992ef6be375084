"""CuPy: its process groups formed without host and port, and released when a rank has failed."""
