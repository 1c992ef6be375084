"""Debuggers on a rank: what others know of it while it is stopped in one."""
