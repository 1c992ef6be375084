"""Checkpoints: files, arrays and trees; what it needs of other ranks is asked of a Council."""
