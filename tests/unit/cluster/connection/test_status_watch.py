"""The thread that keeps a cluster alive, on a line that a test plays."""

from jupyter_dist.cluster.connection.status_watch import StatusWatch
from jupyter_dist.errors import WireError
from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.protocol.messages import TopologyChanged

READY, STOPPED = Topology(cluster="c", state="ready"), Topology(cluster="c", state="stopped")


class Line:
    """Says what it is given, slice by slice; an error is raised."""

    is_far = False

    def __init__(self, *slices):
        self._slices = iter(slices)
        self.is_closed = False

    def new_request_id(self):
        return "r"

    def send(self, message):
        pass

    def receive(self, *, waits_out_breaks):
        said = next(self._slices)
        if isinstance(said, Exception):
            raise said
        yield TopologyChanged("r", said), []

    def close(self):
        self.is_closed = True


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
