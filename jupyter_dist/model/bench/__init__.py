"""What a benchmark of collectives measures, and what links promise."""
