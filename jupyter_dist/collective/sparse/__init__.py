"""Sparse matrices of scipy and CuPy through the calls that communicators have for arrays."""
