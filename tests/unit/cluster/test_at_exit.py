import gc
from weakref import WeakSet

from jupyter_dist.cluster import at_exit


class Connected:
    def __init__(self, log):
        self._log = log

    def detach(self):
        self._log.append("detached")


def test_all_that_are_left_are_detached_and_those_that_are_gone_are_forgotten(monkeypatch):
    monkeypatch.setattr(at_exit, "_connected", WeakSet())
    log = []
    kept, gone = Connected(log), Connected(log)
    for each in (kept, gone):
        at_exit.detach_at_exit(each)
    del gone, each
    gc.collect()
    assert len(at_exit._connected) == 1
    at_exit._detach_all()
    assert log == ["detached"]
