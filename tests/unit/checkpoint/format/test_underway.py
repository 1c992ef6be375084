import threading

import pytest

from jupyter_dist.checkpoint.format.underway import Underway


def test_a_call_goes_on_beside_and_gives_its_result():
    may_end = threading.Event()
    call = Underway(lambda: may_end.wait(10) and "done", "beside")
    may_end.set()
    assert call.wait() == "done"


def test_an_error_of_the_system_is_raised_where_it_is_waited_for():
    def fail():
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        Underway(fail, "beside").wait()
