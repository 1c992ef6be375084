"""What people let AI agents do with a cluster."""
