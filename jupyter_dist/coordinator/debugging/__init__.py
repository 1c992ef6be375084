"""Ranks in debuggers: who is stopped, that nothing runs out meanwhile, and who debugs them."""
