"""How processes talk: the control channel. The only package that imports zmq."""
