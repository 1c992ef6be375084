"""The control channel as a rank has it: one thread owns the socket, others are woken by it."""
