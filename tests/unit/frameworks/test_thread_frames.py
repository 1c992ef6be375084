import gc
import sys
import threading

import pytest

from jupyter_dist.frameworks.thread_frames import read_frames


def test_the_frame_of_each_thread_is_found():
    begun, over = threading.Event(), threading.Event()

    def wait():
        begun.set()
        over.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    begun.wait()
    try:
        frame = read_frames()[thread.ident]
        names = set()
        while frame:
            names.add(frame.f_code.co_name)
            frame = frame.f_back
        assert "wait" in names
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("collects", [True, False])
def test_no_garbage_is_collected_meanwhile_and_then_as_before(monkeypatch, collects):
    seen = []
    monkeypatch.setattr(sys, "_current_frames", lambda: seen.append(gc.isenabled()) or {})
    before = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        read_frames()
        assert gc.isenabled() is collects
    finally:
        (gc.enable if before else gc.disable)()
    assert seen == [collects and sys.version_info >= (3, 12)]
