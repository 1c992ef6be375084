"""The thread that keeps a cluster alive, on a line that a test plays."""

import pytest

from jupyter_dist.cluster.connection.status_watch import StatusWatch
from jupyter_dist.errors import WireError
from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.protocol.messages import TopologyChanged

READY, STOPPED = Topology(cluster="c", state="ready"), Topology(cluster="c", state="stopped")


class Line:
    """Says what it is given, slice by slice; an error is raised."""

    def __init__(self, *slices):
        self._slices = iter(slices)
        self.is_closed = False

    def new_request_id(self):
        return "r"

    def send(self, message):
        pass

    def receive(self):
        said = next(self._slices)
        if isinstance(said, Exception):
            raise said
        yield TopologyChanged("r", said), []

    def close(self):
        self.is_closed = True


@pytest.fixture
def follow():
    """Play a line to its end; gives it, and what was heard beside a subscriber that raises."""

    def run(*slices):
        line = Line(*slices)
        watch = StatusWatch(line, "c")
        calls, heard = [], []

        def broken(topology):
            calls.append(topology)
            raise RuntimeError("undrawable")

        watch.subscribe(broken, 0.25)
        watch.subscribe(heard.append, 0.25)
        watch.run()
        return line, calls, heard

    return run


def test_a_view_that_raises_is_told_no_more_and_the_others_are(follow, capfd):
    line, calls, heard = follow(READY, READY, STOPPED)
    assert calls == [READY]
    assert heard == [READY, READY, STOPPED]
    assert line.is_closed
    assert "undrawable" in capfd.readouterr().err


def test_words_that_cannot_be_read_end_no_watch(follow, capfd):
    _, _, heard = follow(READY, WireError("not a message"), STOPPED)
    assert heard == [READY, STOPPED]
