"""Widgets of ranks, live in a notebook: each comm of a rank has one of the kernel's."""
