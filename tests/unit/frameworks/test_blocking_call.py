import threading

import pytest

from jupyter_dist.errors import PeerFailed
from jupyter_dist.frameworks.blocking_call import BlockingCall


def fail():
    raise PeerFailed(0, "is lost")


def test_a_call_that_does_not_end_is_given_up():
    never = threading.Event()
    call = BlockingCall(never.wait, "stuck")
    with pytest.raises(PeerFailed):
        call.wait(fail)
    assert not call.has_ended(0.0)
    never.set()
    assert call.wait(fail)
    assert not call.has_failed


def test_its_error_is_raised_by_who_waits():
    call = BlockingCall(fail, "failing")
    with pytest.raises(PeerFailed):
        call.wait(lambda: None)
    assert call.has_failed
