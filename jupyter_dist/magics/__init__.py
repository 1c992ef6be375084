"""What a person types in a notebook: parse and call, nothing else."""
