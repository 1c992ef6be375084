import os

from jupyter_dist.probe.gpu_processes import descends_from, process_name

NOBODY = 2**22 + 1
"""More than any process number."""


def test_a_process_and_those_it_descends_from_are_told_apart():
    own, parent = os.getpid(), os.getppid()
    assert descends_from(own)(own)
    assert descends_from(parent)(own)
    assert not descends_from(own)(parent)
    assert not descends_from(own)(NOBODY)


def test_a_process_that_is_not_there_has_no_name():
    assert process_name(os.getpid())
    assert process_name(NOBODY) == ""
