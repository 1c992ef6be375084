"""Workers of others start our agents: whatever runs a function on a node may bring one there."""
