"""Notebooks, terminals and servers: who drives, who observes, and what all of them are told."""
