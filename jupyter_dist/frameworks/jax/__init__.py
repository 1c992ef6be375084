"""JAX: its distributed runtime formed, watched, broken off and formed again."""
