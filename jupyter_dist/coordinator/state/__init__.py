"""Who is there, in which state, and the way to them; every other room asks here.

No room of the coordinator is imported from here.
"""
