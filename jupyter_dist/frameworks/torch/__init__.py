"""torch.distributed: its default group is formed by a bare call, and anew after a failure."""
