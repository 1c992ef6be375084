"""Directories of checkpoints: listed, locked, and written so that none is ever half there."""
