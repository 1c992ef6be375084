import os
import subprocess
import sys

import msgspec
import pytest

from jupyter_dist.probe.gpu_processes import descends_from, process_name

NOBODY = 2**22 + 1
"""More than any process number."""
CUT_NAME = """
import os, time
open("/proc/self/comm", "wb").write(b"aaaaaaaaaaaaaa\\xc3\\xbc")
os.write(1, b"!")
time.sleep(60)
"""


def test_a_process_and_those_it_descends_from_are_told_apart():
    own, parent = os.getpid(), os.getppid()
    assert descends_from(own)(own)
    assert descends_from(parent)(own)
    assert not descends_from(own)(parent)
    assert not descends_from(own)(NOBODY)


@pytest.mark.skipif(sys.platform != "linux", reason="names are set through /proc")
def test_a_name_that_was_cut_within_a_letter_can_be_sent():
    with subprocess.Popen([sys.executable, "-c", CUT_NAME], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.read(1) == b"!"
            name = process_name(process.pid)
        finally:
            process.kill()
    assert name.startswith("aaaaaaaaaaaaaa")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(name)) == name


def test_a_process_that_is_not_there_has_no_name():
    assert process_name(os.getpid())
    assert process_name(NOBODY) == ""
