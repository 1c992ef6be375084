"""What travels between processes: code with its digests, and large objects in pieces."""
