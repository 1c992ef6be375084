"""What an agent observes of its host, and the helper processes that it runs there."""
