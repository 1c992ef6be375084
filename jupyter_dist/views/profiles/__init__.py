"""Profiles of ranks: who is slow and where, and one flame graph over all of them."""
