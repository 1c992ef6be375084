"""Questions about a rank, answered while its main thread runs a cell."""
