"""Widgets of a rank: what they say to the page, and what comes back from it between cells."""
