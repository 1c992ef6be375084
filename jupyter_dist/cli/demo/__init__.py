"""`jupyter dist demo`: the notebooks that a wheel brings along, copied to where a person is."""
