"""Saving: ranks agree on what there is, write their parts, and commit them with one rename."""
