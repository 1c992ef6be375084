"""Which threads of a rank answer its heartbeats, by the names that the system has for them."""

ECHO_THREAD = "jd-beats"
"""Hands each beat back (control/heartbeat.py)."""
IO_THREADS = "ZMQbg/IO/"
"""How the names of those begin in which libzmq reads and writes."""
