"""Widgets of ranks in the kernel: comms that stand for those of ranks, and where they are shown."""

import json
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import comm
import pytest
from ipywidgets.widgets import widget as of_ipywidgets

from jupyter_dist.protocol.messages import WIDGET_VIEW, CommAnswered, CommArrived, Output
from jupyter_dist.views.widgets import rank_widgets, widget_place
from jupyter_dist.views.widgets.rank_widgets import BUSY_AFTER_S, RankWidgets

STATE = {"_model_name": "M", "_model_module": "m", "_model_module_version": "1", "value": 3}


class PageComm:
    """A comm of the kernel: keeps what it would say to the page."""

    def __init__(self, target_name, data, metadata, buffers, comm_id):
        self.comm_id = comm_id
        self.said = [("open", data, buffers)]
        comm.get_comm_manager().comms[comm_id] = self

    def send(self, data=None, metadata=None, buffers=None):
        self.said.append(("msg", data, buffers))

    def close(self):
        del comm.get_comm_manager().comms[self.comm_id]
        self.said.append(("close", None, None))

    def on_msg(self, callback):
        self.hear = lambda data, buffers=(): callback(
            {"content": {"data": data}, "buffers": buffers, "metadata": {}}
        )

    def on_close(self, callback):
        self.hear_close = lambda: callback({"content": {"data": {}}, "metadata": {}})


class Handle:
    def __init__(self, bundle):
        self.bundle = bundle

    def update(self, bundle, raw):
        self.bundle = bundle


@pytest.fixture
def kernel(monkeypatch):
    """RankWidgets with `comms` by id, `places` on the screen, and what is `sent` to the cluster."""
    made = SimpleNamespace(comms={}, places=[], sent=[], now_s=100.0)

    def create_comm(**options):
        made.comms[options["comm_id"]] = PageComm(**options)
        return made.comms[options["comm_id"]]

    def display(bundle, *, raw, display_id):
        made.places.append(Handle(bundle))
        return made.places[-1]

    monkeypatch.setattr(comm, "create_comm", create_comm)
    monkeypatch.setattr(comm.get_comm_manager(), "comms", {})
    monkeypatch.setattr(of_ipywidgets, "_instances", {})
    monkeypatch.setattr(rank_widgets, "display", display)
    monkeypatch.setattr(rank_widgets, "monotonic", lambda: made.now_s)
    monkeypatch.setattr(rank_widgets, "MODEL_PATIENCE_S", 0.0)
    made.widgets = RankWidgets()
    line = SimpleNamespace(send=lambda message, buffers: made.sent.append((message, buffers)))
    made.widgets.follow(SimpleNamespace(follow_widgets=lambda _: line))
    return made


def arrive(kernel, comm_id, kind, data, buffers=(), engine="1", **more):
    content = json.dumps({"data": data, "metadata": {}, **more}).encode()
    kernel.widgets.on_comm(CommArrived("f", engine, 1, comm_id, kind, content), list(buffers))


def open_widget(kernel, comm_id="w", engine="1", **state):
    data = {"state": {**STATE, **state}, "buffer_paths": []}
    arrive(kernel, comm_id, "open", data, engine=engine, target_name="jupyter.widget")
    arrive(kernel, comm_id, "shown", {}, engine=engine)


def show(kernel, comm_id="w", **more):
    data = {WIDGET_VIEW: {"model_id": comm_id}, "text/plain": "Slider()", **more}
    return kernel.widgets.show(1, Output("display", data=data))


def on_screen(kernel):
    return [handle.bundle.get("text/plain") for handle in kernel.places]


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    monkeypatch.setattr(widget_place, "_KEPT_LINES", 3)


def test_the_page_has_the_model_under_its_own_id_and_hears_what_it_says(kernel):
    open_widget(kernel, child="IPY_MODEL_other")
    arrive(kernel, "w", "msg", {"method": "update", "state": {"value": 4}})
    arrive(kernel, "w", "msg", {"method": "custom", "content": 1}, [b"binary"])
    kinds = [kind for kind, _, _ in kernel.comms["w"].said]
    assert kinds == ["open", "msg", "msg"]
    assert kernel.comms["w"].said[0][1]["state"]["child"] == "IPY_MODEL_other"
    assert kernel.comms["w"].said[2][2] == [b"binary"]


def test_a_page_that_comes_later_is_given_the_state_as_it_is_by_then(kernel):
    open_widget(kernel)
    arrive(
        kernel, "w", "msg",
        {"method": "update", "state": {"image": {}}, "buffer_paths": [["image", "data"]]},
        [b"png"],
    )  # fmt: skip
    kernel.comms["w"].hear({"method": "update", "state": {"value": 9}})
    mirror = of_ipywidgets._instances["w"]
    assert mirror.get_state() == {**STATE, "value": 9, "image": {"data": b"png"}}
    assert mirror._get_embed_state()["model_name"] == "M"
    kernel.comms["w"].hear({"method": "request_state"})
    assert kernel.comms["w"].said[-1][1]["state"]["value"] == 9


def test_what_the_page_says_goes_to_the_process_with_its_number_and_other_pages_hear_it(kernel):
    open_widget(kernel)
    kernel.comms["w"].hear({"method": "update", "state": {"value": 5}})
    kernel.comms["w"].hear({"method": "custom", "content": {}}, [memoryview(b"b")])
    (first, _), (second, buffers) = kernel.sent
    assert (first.engine, first.comm_id, first.number, second.number) == ("1", "w", 1, 2)
    assert json.loads(first.content)["data"]["state"] == {"value": 5}
    assert buffers == [b"b"]
    assert kernel.comms["w"].said[-1][1] == {
        "method": "echo_update", "state": {"value": 5}, "buffer_paths": [],
    }  # fmt: skip


def test_a_rank_may_not_speak_for_a_comm_that_is_not_its_own(kernel):
    open_widget(kernel, engine="1")
    open_widget(kernel, engine="2")
    arrive(kernel, "w", "close", {}, engine="2")
    assert [kind for kind, _, _ in kernel.comms["w"].said] == ["open"]
    assert list(kernel.widgets._processes["2"].models) == []


def test_a_widget_stands_below_the_name_of_its_rank_once_its_model_is_there(kernel):
    assert not show(kernel)
    assert kernel.places == []
    open_widget(kernel)
    assert show(kernel)
    assert on_screen(kernel) == ["rank 1", "Slider()", ""]
    assert WIDGET_VIEW in kernel.places[1].bundle


def test_what_callbacks_say_stands_below_the_widget_they_are_of(kernel):
    open_widget(kernel, "box", children=["IPY_MODEL_w"])
    open_widget(kernel, "w")
    open_widget(kernel, "another")
    show(kernel, "box")
    show(kernel, "another")
    said = (Output("stdout", "1\n2\n3\n4\n"),)
    kernel.widgets.on_answer(CommAnswered("f", "1", 1, "w", 1, said))
    assert on_screen(kernel)[2] == "rank 1, callbacks: \n2\n3\n4"
    assert on_screen(kernel)[5] == ""


def test_events_that_wait_are_told_of_until_they_are_done(kernel):
    open_widget(kernel)
    show(kernel)
    kernel.comms["w"].hear({"method": "custom"})
    kernel.comms["w"].hear({"method": "custom"})
    kernel.widgets.on_tick()
    assert on_screen(kernel)[0] == "rank 1"
    kernel.now_s += BUSY_AFTER_S + 0.1
    kernel.widgets.on_tick()
    assert on_screen(kernel)[0] == "rank 1 is busy: 2 events wait"
    kernel.widgets.on_answer(CommAnswered("f", "1", 1, "w", 2))
    kernel.widgets.on_tick()
    assert on_screen(kernel)[0] == "rank 1"


@pytest.mark.parametrize("engine", ["1", ""])
def test_widgets_of_a_process_that_ends_say_so_and_are_closed(kernel, engine):
    open_widget(kernel)
    show(kernel)
    kernel.widgets.on_ended(engine, "rank 1 is lost")
    assert "rank 1 is lost" in on_screen(kernel)[0]
    assert kernel.places[1].bundle == {"text/plain": "Slider()"}
    assert kernel.comms["w"].said[-1][0] == "close"
    assert of_ipywidgets._instances == {}
    assert kernel.widgets.have_ended is (engine == "")


def test_a_figure_that_ends_leaves_its_picture(kernel):
    open_widget(kernel)
    show(kernel, **{"image/png": "iVBORw0K", "text/html": "<img>"})
    kernel.widgets.on_ended("1", "rank 1 is lost")
    assert kernel.places[1].bundle == {"text/plain": "Slider()", "image/png": "iVBORw0K"}


def shown_as_first(kernel):
    """Which model stands in each place, below which heading, and with what below it."""
    bundles = [handle.bundle for handle in kernel.places]
    models = [bundle.get(WIDGET_VIEW, {}).get("model_id", "ended") for bundle in bundles[1::3]]
    return list(zip([each["text/plain"] for each in bundles[::3]], models, strict=True))


@pytest.mark.parametrize(
    ("is_rank_after_rank", "order"),
    [(False, ["0a", "1a", "2a", "0b", "1b"]), (True, ["0a", "0b", "1a", "1b", "2a"])],
)
def test_widgets_of_a_cell_that_has_ended_stand_by_rank(kernel, is_rank_after_rank, order):
    places = []
    for name in ("1a", "0a", "2a", "1b", "0b"):
        open_widget(kernel, name)
        data = {WIDGET_VIEW: {"model_id": name}, "text/plain": name}
        places.append(kernel.widgets.show(int(name[0]), Output("display", data=data)))
    untouched = kernel.places[7].bundle
    kernel.widgets.order(places, is_rank_after_rank=is_rank_after_rank)
    assert shown_as_first(kernel) == [(f"rank {name[0]}", name) for name in order]
    assert (kernel.places[7].bundle is untouched) is not is_rank_after_rank
    kernel.widgets.on_answer(CommAnswered("f", "1", 1, "0a", 1, (Output("stdout", "clicked\n"),)))
    assert on_screen(kernel)[2] == "rank 0, callbacks: \nclicked"


def test_a_widget_that_has_ended_says_so_in_its_new_place_too(kernel):
    open_widget(kernel, "1a", engine="1")
    open_widget(kernel, "0a", engine="0")
    places = [
        kernel.widgets.show(rank, Output("display", data={WIDGET_VIEW: {"model_id": f"{rank}a"}}))
        for rank in (1, 0)
    ]
    kernel.widgets.on_ended("1", "rank 1 is lost")
    kernel.widgets.order(places, is_rank_after_rank=False)
    (_, first), (heading, second) = shown_as_first(kernel)
    assert (first, second) == ("0a", "ended")
    assert "rank 1 is lost" in heading


def test_a_widget_waits_for_all_that_was_said_before_it_was_displayed(kernel, monkeypatch):
    monkeypatch.setattr(rank_widgets, "MODEL_PATIENCE_S", 60.0)
    arrive(kernel, "w", "open", {"state": STATE}, target_name="jupyter.widget")
    with ThreadPoolExecutor() as pool:
        place = pool.submit(show, kernel)
        arrive(kernel, "w", "msg", {"method": "update", "state": {"toolbar": "IPY_MODEL_t"}})
        assert kernel.places == []
        arrive(kernel, "w", "shown", {})
        assert place.result(10) is not None


def test_a_widget_whose_model_was_not_kept_is_not_waited_for(kernel, monkeypatch):
    monkeypatch.setattr(rank_widgets, "MODEL_PATIENCE_S", 60.0)
    arrive(kernel, "w", "shown", {})
    assert show(kernel) is None


def test_what_the_notebook_closes_is_closed_on_the_rank(kernel):
    open_widget(kernel)
    of_ipywidgets._instances["w"].close()
    assert kernel.sent[-1][0].kind == "close"
    assert comm.get_comm_manager().comms == {}
