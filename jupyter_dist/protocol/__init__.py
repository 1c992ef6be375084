"""What is said: every message, and how it becomes bytes. No sockets here."""
