"""Profiles of all ranks on one clock: begun, gathered, and told who is slow and where."""
