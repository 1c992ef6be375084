"""The versions, in a module that imports nothing, so that every layer may ask for them."""

__version__ = "0.2.0"

WIRE = "jupyter-dist/4"
"""What processes of a cluster say to each other; two that differ in this never talk.

Adding a field with a default keeps it.
"""
