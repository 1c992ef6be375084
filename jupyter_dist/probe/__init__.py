"""What a machine has: cores, memory, GPUs."""
