"""The transport that needs nothing but numpy: shared memory on one host, authenticated sockets."""
