"""Processes of this machine, and what belongs to them: descendants, open files, directories."""
