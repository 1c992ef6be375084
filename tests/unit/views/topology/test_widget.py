"""The widget beside a cluster that only pretends."""

import subprocess
import sys
import time
from types import SimpleNamespace

import comm
import msgspec
import pytest
from comm import DummyComm
from fakes.view_replies import Replies

from jupyter_dist.model.hosts.topology import EngineView, HostView, Topology
from jupyter_dist.views.topology import widget as topology_widget
from jupyter_dist.views.topology.widget import TopologyWidget, show_topology


def a_topology(sequence=1, state="ready"):
    engine = EngineView(rank=0, local_rank=0, state="idle")
    host = HostView(name="node-a", state="up", engines=(engine,))
    return Topology(cluster="demo", state=state, sequence=sequence, hosts=(host,))


class FakeCluster:
    """Says what the test tells it to, and remembers what it was asked."""

    name = "demo"
    is_observer = False

    def __init__(self):
        self.asked = []
        self.tell = lambda _topology: None

    def topology(self):
        return a_topology()

    def watch_topology(self, callback, interval_s=0.25):
        self.asked.append(f"watch every {interval_s} s")
        self.tell = callback
        return lambda: self.asked.append("unwatch")

    def interrupt(self, ranks=None):
        self.asked.append("interrupt")
        return (0, 1, 2)

    def stop(self):
        self.asked.append("stop")


class Output:
    """A display in the notebook, as IPython's DisplayHandle."""

    def __init__(self, bundle):
        self.bundles = [bundle]

    def update(self, bundle, raw=False):
        assert raw
        self.bundles.append(bundle)


@pytest.fixture
def cluster():
    return FakeCluster()


@pytest.fixture
def widget(cluster):
    made = TopologyWidget(cluster)
    yield made
    made.freeze()
    made.close()


@pytest.fixture
def replies(widget, monkeypatch):
    taken = Replies()
    monkeypatch.setattr(widget, "send", taken.take)
    return taken


@pytest.fixture
def outputs(monkeypatch):
    shown = []

    def display(bundle, raw=False, display_id=False):
        shown.append(Output(bundle))
        return shown[-1] if display_id else None

    monkeypatch.setattr(topology_widget, "display", display)
    return shown


def a_large_topology(sequence):
    """Give one of about 0.4 megabytes."""
    engines = tuple(EngineView(rank=n, local_rank=n, reason="x" * 700) for n in range(500))
    host = HostView(name="node-a", state="up", engines=engines)
    return Topology(cluster="demo", state="ready", sequence=sequence, hosts=(host,))


def ask(widget, kind, request_id="a"):
    widget._handle_custom_msg({"kind": kind, "id": request_id}, [])


def test_the_state_follows_the_cluster_at_most_four_times_a_second(widget, cluster):
    assert cluster.asked == ["watch every 0.25 s"]
    cluster.tell(a_topology(7))
    assert widget.state["sequence"] == 7
    assert msgspec.convert(widget.state, Topology) == a_topology(7)


@pytest.mark.parametrize(("make", "shown"), [(a_topology, [7, 8, 9]), (a_large_topology, [7, 9])])
def test_a_large_picture_comes_less_often_and_the_last_one_always(
    widget, cluster, monkeypatch, make, shown
):
    now_s = 100.0
    clock = SimpleNamespace(monotonic=lambda: now_s, strftime=time.strftime)
    monkeypatch.setattr(topology_widget, "time", clock)
    seen = []
    for sequence in (7, 8, 9):
        cluster.tell(make(sequence))
        if widget.state["sequence"] == sequence:
            seen.append(sequence)
        now_s += 0.26
    assert seen == shown
    now_s -= 0.25
    cluster.tell(a_topology(10, "stopped"))
    assert widget.state["sequence"] == 10


def test_a_request_is_answered_by_a_message_with_its_id(widget, cluster, replies):
    ask(widget, "interrupt", "x1")
    assert replies.wait(1) == [
        {"kind": "reply", "id": "x1", "ok": True, "text": "ranks 0-2 signalled", "is_final": True}
    ]


@pytest.mark.parametrize("content", [None, "interrupt", ["interrupt"]])
def test_what_is_no_request_is_left_alone(widget, cluster, replies, content):
    widget._handle_custom_msg(content, [])
    assert "interrupt" not in cluster.asked
    assert replies == []


def test_a_display_has_the_widget_and_a_text_for_those_who_cannot_draw_it(widget, outputs):
    widget._ipython_display_()
    (bundle,) = outputs[0].bundles
    assert set(bundle) == {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"}
    assert bundle["text/plain"].startswith("cluster demo · ready")
    assert "not live" in bundle["text/html"]


@pytest.mark.parametrize("end", ["stopped", "gone"])
def test_the_end_of_the_cluster_turns_each_display_into_a_snapshot(widget, cluster, outputs, end):
    widget._ipython_display_()
    widget._ipython_display_()
    cluster.tell(a_topology(9, end))
    for output in outputs:
        last = output.bundles[-1]
        assert set(last) == {"text/html", "text/plain"}
        assert end in last["text/html"]
        assert "not live" in last["text/html"]
    assert widget.state["sequence"] == 9
    assert widget.comm is None


def test_the_end_does_not_join_the_watching_thread_from_itself(widget, cluster, outputs):
    widget._ipython_display_()
    cluster.tell(a_topology(9, "stopped"))
    assert "unwatch" not in cluster.asked


def test_freeze_stops_watching_and_replaces_each_display_once(widget, cluster, outputs):
    widget._ipython_display_()
    widget.freeze()
    widget.freeze()
    cluster.tell(a_topology(9))
    assert "unwatch" in cluster.asked
    assert len(outputs[0].bundles) == 2
    assert widget.state["sequence"] == 1


def test_a_frozen_widget_is_displayed_as_its_snapshot(widget, outputs):
    widget.freeze()
    widget._ipython_display_()
    assert set(outputs[0].bundles[0]) == {"text/html", "text/plain"}


def test_an_answer_after_the_end_goes_nowhere_and_raises_nothing(widget, cluster, outputs):
    widget._ipython_display_()
    cluster.tell(a_topology(9, "stopped"))
    widget._answer({"kind": "reply", "id": "late"})
    assert widget.comm is None


def test_on_ipykernel_7_4_a_message_goes_to_the_subshell_that_was_named(cluster, monkeypatch):
    class Comm74(DummyComm):
        def _reply_subshell_for(self, data, default):
            return None

    monkeypatch.setattr(comm, "create_comm", Comm74)
    widget = TopologyWidget(cluster)
    assert widget.comm._reply_subshell_for({}, "subshell-1") == "subshell-1"
    widget.freeze()
    widget.close()


def test_outside_a_notebook_nothing_is_displayed(cluster, outputs):
    show_topology(cluster)
    assert outputs == []
    assert cluster.asked == []


@pytest.fixture
def notebook(monkeypatch):
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setattr(topology_widget, "get_ipython", lambda: shell)


@pytest.mark.usefixtures("notebook")
def test_a_cluster_that_is_shown_again_has_one_widget_with_one_more_view(cluster, outputs):
    other = FakeCluster()
    for each in (cluster, cluster, other):
        show_topology(each)
    first, again, of_other = [shown.bundles[0] for shown in outputs]
    assert first is again
    assert of_other is not first
    assert cluster.asked == other.asked == ["watch every 0.25 s"]
    for widget in (first, of_other):
        widget.freeze()
        widget.close()


@pytest.mark.usefixtures("notebook")
def test_a_cluster_that_is_shown_after_its_widget_has_ended_gets_a_new_one(cluster, outputs):
    show_topology(cluster)
    cluster.tell(a_topology(9, "stopped"))
    show_topology(cluster)
    ended, new = [shown.bundles[0] for shown in outputs]
    assert new is not ended
    new.freeze()
    assert topology_widget._shown == {}
    for widget in (ended, new):
        widget.close()


def test_the_views_package_alone_loads_no_widgets():
    code = (
        "import sys, jupyter_dist.views, jupyter_dist.views.topology.snapshot;"
        "sys.exit(bool({'anywidget', 'ipywidgets', 'IPython'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0


@pytest.mark.parametrize("is_observer", [False, True])
def test_views_know_whether_their_notebook_only_observes(is_observer):
    cluster = FakeCluster()
    cluster.is_observer = is_observer
    widget = TopologyWidget(cluster)
    assert widget.is_observer is is_observer
    widget.freeze()
