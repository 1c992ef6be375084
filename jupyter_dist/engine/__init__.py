"""One rank: the main thread runs cells, the link thread has the socket meanwhile."""
