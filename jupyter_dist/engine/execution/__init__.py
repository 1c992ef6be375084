"""A cell on the main thread: its namespace, its status, and what it must not damage."""
