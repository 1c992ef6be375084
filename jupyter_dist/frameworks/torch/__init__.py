"""torch.distributed: its default group is formed by a bare call, and again after a failure."""
