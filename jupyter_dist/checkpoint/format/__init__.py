"""What a checkpoint is on a disk: its manifest, its part files, and how both are checked."""
