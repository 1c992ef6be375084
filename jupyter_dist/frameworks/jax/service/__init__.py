"""JAX's coordination service in a process of its own, and the relays that stand before it."""
