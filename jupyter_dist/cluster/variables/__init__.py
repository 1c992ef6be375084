"""Questions to ranks while they run: which variables they have, and what they are doing."""
