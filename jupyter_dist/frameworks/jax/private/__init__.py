"""The private parts of JAX, each behind one probe; nowhere else are they known."""
