"""What shall be: the specification of a cluster, its limits and policies, read and checked.

Only values and their checks; files and options that lead to them are read elsewhere.
"""
