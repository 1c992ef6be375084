"""What is kept on a host for its ranks: synced code, and large pushed objects."""
