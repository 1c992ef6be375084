"""The engines of this host from outside: started, signalled, their stacks and ends."""
