"""Checkpoints: files, arrays and trees; what they need of other ranks is asked of a RankGroup."""
