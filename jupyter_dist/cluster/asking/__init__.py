"""What ranks ask a person: whether one can be asked here, and how."""
