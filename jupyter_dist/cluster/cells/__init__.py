"""Cells that run behind the notebook, or ran before it was there, and programs in their place."""
