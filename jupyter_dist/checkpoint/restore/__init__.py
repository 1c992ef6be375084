"""Restoring: ranks agree on one checkpoint, share out the reading, and place what they read."""
