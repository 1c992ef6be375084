"""One cell, push or pull at a time: queued, started, interrupted, ended, and what it has said.

What becomes of lost ranks is decided in `recovery`, what running ranks are asked in `observation`.
"""
