"""Hosts that will be taken away: noticed, and every rank given the time to save."""
