"""The widget beside a cluster that only pretends."""

import json
import subprocess
import sys
import time
from types import SimpleNamespace

import comm
import msgspec
import pytest
from comm import DummyComm
from fakes.view_replies import Replies
from msgspec.structs import replace

from jupyter_dist.model.hosts.axes import Axes
from jupyter_dist.model.hosts.topology import EngineView, HostView, Topology
from jupyter_dist.views.topology import widget as topology_widget
from jupyter_dist.views.topology.widget import TopologyWidget, show_topology
from tests.told_page import ToldPage


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


def model_of(output):
    """Return which widget an output shows."""
    return output.bundles[0]["application/vnd.jupyter.widget-view+json"]["model_id"]


def state_of(widget):
    """Return what a page that comes now is told."""
    said = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(widget, "send", said.append)
        widget._handle_custom_msg({"kind": "script"}, [])
    page = ToldPage()
    page.take(said[0]["told"])
    return page.state


def ask(widget, kind, request_id="a"):
    widget._handle_custom_msg({"kind": kind, "id": request_id}, [])


def test_the_state_follows_the_cluster_at_most_four_times_a_second(widget, cluster):
    assert cluster.asked == ["watch every 0.25 s"]
    cluster.tell(a_topology(7))
    assert msgspec.convert(state_of(widget), Topology) == a_topology(7)


@pytest.fixture
def page(widget, monkeypatch):
    """Give a page that hears what the widget sends."""
    page = ToldPage()
    monkeypatch.setattr(widget, "send", lambda content: page.take(content["told"]))
    widget._handle_custom_msg({"kind": "whole"}, [])
    return page


def test_a_page_hears_what_changes_and_the_whole_now_and_then(widget, cluster, page, monkeypatch):
    now_s = 100.0
    clock = SimpleNamespace(monotonic=lambda: now_s, strftime=lambda _form: str(now_s))
    monkeypatch.setattr(topology_widget, "time", clock)
    snapshots = []
    widget.observe(lambda change: snapshots.append(change.new), "snapshot")
    first, widget._next_whole_s = page.wholes, now_s
    for sequence in range(2, 90):
        cluster.tell(a_topology(sequence))
        assert page.state["sequence"] == sequence
        now_s += 0.25
    assert page.wholes - first == len(snapshots) == 3


def test_the_script_comes_after_the_beginning_without_being_asked_for(cluster, monkeypatch):
    sent = []

    class Line(DummyComm):
        def publish_msg(self, msg_type, data=None, **_more):
            sent.append((msg_type, data))

    monkeypatch.setattr(comm, "create_comm", Line)
    widget = TopologyWidget(cluster)
    (opening, opened), (_, second), (_, third) = sent[-3:]
    assert opening == "comm_open"
    assert opened["state"]["script_follows"]
    assert second["content"]["kind"] == "script"
    assert "export default" in second["content"]["script"]
    assert third["state"] == {"script_follows": False}
    widget.freeze()
    widget.close()


def test_a_notebook_that_keeps_its_widgets_keeps_10_kb_of_8_ranks_and_how_they_were(cluster):
    engines = tuple(EngineView(rank=rank, local_rank=rank, state="idle") for rank in range(8))
    host = HostView(name="node-a", state="up", memory_total_bytes=1 << 35, engines=engines)
    cluster.topology = lambda: Topology(cluster="demo", state="ready", hosts=(host,))
    widget = TopologyWidget(cluster)
    state = widget.get_state()
    assert len(json.dumps(state, default=str)) < 10_000
    assert time.strftime("%Y-%m-%d") in state["snapshot"]
    assert "not live" in state["snapshot"]
    widget.freeze()
    widget.close()


@pytest.mark.parametrize(("took_s", "shown"), [(0.001, [7, 8, 9]), (0.02, [7, 9])])
def test_what_takes_long_to_compare_comes_less_often_and_the_last_one_always(
    widget, cluster, monkeypatch, took_s, shown
):
    now_s = 100.0
    clock = SimpleNamespace(monotonic=lambda: now_s, strftime=time.strftime)
    monkeypatch.setattr(topology_widget, "time", clock)
    tell = widget._teller.tell

    def tell_slowly(topology, told_s):
        nonlocal now_s
        now_s += took_s
        return tell(topology, told_s)

    monkeypatch.setattr(widget._teller, "tell", tell_slowly)
    seen = []
    for sequence in (7, 8, 9):
        cluster.tell(a_topology(sequence))
        if state_of(widget)["sequence"] == sequence:
            seen.append(sequence)
        now_s += 0.26
    assert seen == shown
    now_s -= 0.25
    cluster.tell(a_topology(10, "stopped"))
    assert state_of(widget)["sequence"] == 10


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
    cluster.tell(a_topology(7))
    cluster.tell(a_topology(8, "stopping"))
    cluster.tell(a_topology(9, end))
    for output in outputs:
        last = output.bundles[-1]
        assert set(last) == {"text/html", "text/plain"}
        for text in last.values():
            assert f"not live: the cluster is {end}." in text
            assert "stopping" not in text, "how it was before"
    assert state_of(widget)["sequence"] == 9
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
    assert state_of(widget)["sequence"] == 1


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
    first, again, of_other = map(model_of, outputs)
    assert first == again != of_other
    assert cluster.asked == other.asked == ["watch every 0.25 s"]
    for widget in list(topology_widget._shown.values()):
        widget.freeze()


@pytest.mark.usefixtures("notebook")
def test_a_cluster_that_is_shown_after_its_widget_has_ended_gets_a_new_one(cluster, outputs):
    show_topology(cluster)
    cluster.tell(a_topology(9, "stopped"))
    show_topology(cluster)
    ended, new = map(model_of, outputs)
    assert new != ended
    topology_widget._shown[cluster].freeze()
    assert topology_widget._shown == {}


@pytest.mark.usefixtures("notebook")
def test_what_is_shown_unasked_says_nothing_that_another_run_would_not(cluster, outputs):
    measured = EngineView(
        rank=0,
        local_rank=0,
        pid=4711,
        state="busy",
        cell="In[3]",
        busy_s=4.2,
        cpu_percent=71.0,
        rss_bytes=2**28,
    )
    hosts = (
        HostView(
            name="node-a", state="up", cpu_count=8, cpu_percent=71.0, memory_total_bytes=2**35,
            memory_used_bytes=2**31, engines=(measured,),
        ),
    )  # fmt: skip
    show_topology(cluster, has_measures=False)
    show_topology(cluster)
    cluster.tell(replace(a_topology(7), hosts=hosts, generation=3, note="rank 0 waits for 12 s"))
    cluster.tell(a_topology(9, "stopped"))
    plain, measured = [shown.bundles[-1]["text/plain"] for shown in outputs]
    assert plain == (
        "cluster demo · ready · 1 started\n\nnode-a · 8 cores · memory 32 GiB\n  rank  state\n"
        "     0  ● started\n\nSnapshot, not live: the cluster is stopped."
    )
    for told in ("71%", "256 MiB", "In[3]", "12 s", "generation 3"):
        assert told in measured
        assert told not in outputs[0].bundles[-1]["text/html"]


def test_what_stands_still_is_arranged_as_a_page_has_arranged_it(cluster, outputs):
    engines = tuple(EngineView(rank=rank, local_rank=rank, state="idle") for rank in range(4))
    axes = Axes(("data", "model"), (2, 2))
    cluster.topology = lambda: replace(
        a_topology(), hosts=(HostView(name="node-a", state="up", engines=engines),), axes=axes
    )
    widget = TopologyWidget(cluster)
    assert "model=1" not in widget.snapshot
    widget._handle_custom_msg({"kind": "arrange", "across": "model"}, [])
    assert "model=1" in widget.snapshot
    widget._ipython_display_()
    assert "data  model=0   model=1   on" in outputs[0].bundles[0]["text/plain"]
    for odd in ("data=7", 7, None):
        widget._handle_custom_msg({"kind": "arrange", "across": odd}, [])
        assert "model=1" not in widget.snapshot
    widget.freeze()


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
