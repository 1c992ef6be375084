"""Ranks and hosts that come, end and are lost; and what is done about those that are lost."""
