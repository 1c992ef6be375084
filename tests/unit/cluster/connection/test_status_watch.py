"""The thread that keeps a cluster alive, on a line that a test plays."""

import queue
import socket

import pytest

from jupyter_dist.cluster.connection import status_watch
from jupyter_dist.cluster.connection.status_watch import StatusWatch
from jupyter_dist.errors import WireError
from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.protocol.messages import ShowPresence, TopologyChanged, WatchTopology

READY, STOPPED = Topology(cluster="c", state="ready"), Topology(cluster="c", state="stopped")


class Line:
    """Says what it is given, slice by slice, and then nothing; an error is raised."""

    is_far = False

    def __init__(self, *slices):
        self._slices = list(slices)
        self._ends = socket.socketpair()
        self.pollable = self._ends[0].fileno()
        if slices:
            self._ends[1].send(b"!")
        self.asked = queue.SimpleQueue()
        self.is_closed = False

    def new_request_id(self):
        return "r"

    def send(self, message):
        self.asked.put(type(message))

    def receive(self, _timeout_s, *, waits_out_breaks):
        for said in self._slices[:1]:
            del self._slices[0]
            if isinstance(said, Exception):
                raise said
            yield TopologyChanged("r", said), []

    def close(self):
        self.is_closed = True
        for end in self._ends:
            end.close()


def test_neither_a_view_that_raises_nor_words_that_cannot_be_read_end_a_watch(capfd):
    line = Line(READY, READY, WireError("not a message"), STOPPED)
    watch = StatusWatch(line, "c")
    calls, heard = [], []

    def broken(topology):
        calls.append(topology)
        raise RuntimeError("undrawable")

    watch.subscribe(broken, 0.25)
    watch.subscribe(heard.append, 0.25)
    watch.run()
    assert calls == [READY], "it is told no more"
    assert heard == [READY, READY, STOPPED]
    assert line.is_closed
    assert "undrawable" in capfd.readouterr().err


@pytest.fixture
def watch(monkeypatch):
    """One that is in a long slice by now."""
    monkeypatch.setattr(status_watch, "SLICE_S", 60.0)
    line = Line()
    watch = StatusWatch(line, "c")
    watch.start()
    assert line.asked.get(timeout=10) is ShowPresence
    yield watch
    watch.close()
    assert not watch.is_alive()
    assert line.is_closed


def test_to_close_a_watch_waits_for_no_slice(watch):
    watch.close()
    assert not watch.is_alive()
    watch.close()


def test_a_subscription_is_sent_at_once(watch):
    end = watch.subscribe(print, 0.25)
    assert watch._connection.asked.get(timeout=10) is WatchTopology
    end()
