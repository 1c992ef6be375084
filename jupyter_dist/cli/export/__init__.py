"""`jupyter dist export`: a notebook becomes a program that runs without this package."""
