"""How a rank ends: preemption, SIGTERM, and the reason that it leaves for who asks later."""
