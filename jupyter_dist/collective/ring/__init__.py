"""The transport that needs nothing but numpy and TCP: rings of authenticated sockets."""
