import gc
import sys
import threading
import weakref

import pytest

from jupyter_dist.frameworks.thread_frames import read_calls


def test_the_frame_of_each_thread_is_found():
    begun, over = threading.Event(), threading.Event()

    def wait():
        begun.set()
        over.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    begun.wait()
    try:
        calls = read_calls()[thread.ident]
        names = [frame.f_code.co_name for frame, _ in calls]
        assert names.index("run") < names.index("wait")  # the outermost comes first
    finally:
        over.set()
        thread.join()


def test_what_a_thread_has_goes_when_it_lets_go_of_it_though_it_was_looked_at():
    begun, over = threading.Event(), threading.Event()
    kept = []

    class Large:
        pass

    def wait():
        large = Large()
        kept.append(weakref.ref(large))
        begun.set()
        over.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    begun.wait()
    gc.disable()  # which would come by and by, and with large heaps after minutes
    try:
        assert thread.ident in read_calls()
        over.set()
        thread.join()
        assert kept[0]() is None
    finally:
        over.set()
        gc.enable()


class Innermost:
    """A frame that notes whether garbage is collected when its caller is read."""

    f_lineno = 1

    def __init__(self, seen):
        self._seen = seen

    @property
    def f_back(self):
        self._seen.append(gc.isenabled())


@pytest.mark.parametrize("collects", [True, False])
def test_no_garbage_is_collected_meanwhile_and_then_as_before(monkeypatch, collects):
    seen = []
    frames = {1: Innermost(seen), threading.get_ident(): Innermost(seen)}
    monkeypatch.setattr(sys, "_current_frames", lambda: seen.append(gc.isenabled()) or frames)
    before = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        read_calls()
        assert gc.isenabled() is collects
    finally:
        (gc.enable if before else gc.disable)()
    assert set(seen) == {collects and sys.version_info >= (3, 12)}
    assert len(seen) == 2
