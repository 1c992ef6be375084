"""What a person types in a terminal: ."""
