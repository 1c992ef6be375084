"""Jobs of `jupyter dist run`: their exit status, and what a notebook's kernel tells of them."""
