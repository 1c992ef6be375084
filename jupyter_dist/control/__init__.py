"""How processes talk: the control channel, and files in memory for what is large.

The only package that imports zmq.
"""
