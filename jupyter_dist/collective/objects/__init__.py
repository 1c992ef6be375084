"""Object collectives: any Python object over the control channel, and how values differ."""
