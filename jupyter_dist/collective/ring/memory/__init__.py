"""Memory that ranks on one host share, and how collectives go through it."""
