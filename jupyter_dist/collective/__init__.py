"""How ranks exchange arrays: communicators. The data path, apart from the control channel."""
