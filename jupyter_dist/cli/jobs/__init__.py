"""`jupyter dist run`: programs and notebooks as jobs."""
