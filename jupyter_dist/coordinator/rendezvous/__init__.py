"""Generations: ranks say hello, learn of each other, and share what a communicator needs."""
