"""One rank: the main thread runs cells, the link thread owns the socket."""
