"""Modules that come from the code directory: noted when imported, reloaded when changed."""
