"""SIGTERM at what a rank has forked: it ends the child, at whatever moment it comes."""

import subprocess
import sys

CHILDREN = 300
ENDS = f"""
import os, signal, time
from jupyter_dist.engine.leaving.sigterm import SigtermHandler

SigtermHandler().install()
before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
for _ in range({CHILDREN}):
    pid = os.fork()
    if not pid:
        time.sleep(5)
        os._exit(0)
    os.kill(pid, signal.SIGTERM)
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert ended == -signal.SIGTERM, ended
assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
"""


def test_a_child_that_has_only_just_been_forked_is_ended():
    subprocess.run([sys.executable, "-c", ENDS], check=True)
