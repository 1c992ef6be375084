"""What is typed in a notebook: its completion, and hints for what was meant."""
