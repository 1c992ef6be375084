"""The IPython shell of a rank: sources of cells, tracebacks, stored values."""
