"""What a person may ask for on a command line: one grammar for notebooks and terminals.

A module describes options and reads them into values; it starts nothing and asks nobody.
"""
