"""`checkpoint` in the namespace of a rank, and what is saved while cells go on."""
