"""What a person types in a terminal: `jupyter dist …`, parse and call, nothing else."""
