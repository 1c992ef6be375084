"""What a machine has: cores, memory, GPUs, network cards, and what joins them."""
