"""Notebooks as jobs: read, given parameters, run by a kernel, shown and written as they go."""
