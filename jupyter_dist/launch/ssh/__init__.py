"""Agents on other machines, over the user's own OpenSSH; what its failures mean."""
