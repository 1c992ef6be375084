"""How a process of a rank has ended, and why."""
