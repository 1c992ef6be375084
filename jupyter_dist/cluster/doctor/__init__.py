"""Hosts examined without a cluster: what they are, whom they reach, and what that means."""
