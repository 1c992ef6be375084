"""Requests of the topology view and its rank panel, on a page whose model only pretends to send."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jupyter_dist.model.hosts.topology import EngineView, GpuView, HostView, Topology
from tests.facts import assert_tells
from tests.matrix import only

pytestmark = pytest.mark.browser

OpenView = Callable[..., Any]
AXE = Path(__file__).parents[2] / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
KINDS = ["interrupt", "stacks", "explain", "heal"]
PARTS = ["stack", "last lines", "collectives", "variables"]
LONG = "\n".join(f"line {number} of a stack" for number in range(200))
SHAPES = "[...document.querySelectorAll('.jd-rank-panel pre')].map(node => node.textContent.trim())"


def a_topology(
    sequence: int = 1, *, lost: tuple[int, ...] = (), ranks: int = 4, **more: Any
) -> Topology:
    engines = tuple(
        EngineView(
            rank=rank,
            local_rank=rank,
            pid=100 + rank,
            state="lost" if rank in lost else "busy",
            cell="In[3]",
            cpu_percent=(sequence * 7 + rank) % 100,
            rss_bytes=(100 + sequence) * 10**6,
        )
        for rank in range(ranks)
    )
    host = HostView(name="node-a", state="up", memory_total_bytes=64 * 10**9, engines=engines)
    given = {"cluster": "demo", "state": "ready", "sequence": sequence, "hosts": (host,)}
    return Topology(**{**given, **more})


def show(page: Any, topology: Topology) -> None:
    page.evaluate("state => model.show(state)", msgspec.to_builtins(topology))


@pytest.fixture
def page(open_view: OpenView) -> Any:
    return open_view(a_topology(), has_test_clock=True)


def sent(page: Any) -> list[dict[str, Any]]:
    return list(page.evaluate("model.sent"))


def answer(page: Any, request: dict[str, Any], text: str, **more: Any) -> None:
    told = {"kind": "reply", "id": request["id"], "ok": True, "text": text, "is_final": True}
    page.evaluate("reply => model.emit('msg:custom', reply)", {**told, **more})


def lines(page: Any) -> list[str]:
    """Give what is said of each request, the newest first; ages apart, for time does not stop."""
    return list(page.locator(".jd-request-words").all_inner_texts())


def ages(page: Any) -> list[str]:
    return list(page.locator(".jd-request .jd-age").all_text_contents())


def sections(*titles: str, text: str = "known") -> list[dict[str, str]]:
    return [{"title": title, "text": f"{title} {text}"} for title in titles]


def focused(page: Any) -> str:
    """Say what has the focus: a rank's seat, or a class name."""
    return str(
        page.evaluate(
            "document.activeElement.dataset.rank ? `rank ${document.activeElement.dataset.rank}`"
            " : document.activeElement.getAttribute('class')"
        )
    )


def open_panel(page: Any, rank: int) -> dict[str, Any]:
    page.focus(f'[data-rank="{rank}"]')
    page.keyboard.press("Enter")
    assert page.is_visible(".jd-rank-panel")
    return sent(page)[-1]


# --- requests ---


@pytest.mark.parametrize("kind", KINDS)
def test_each_button_sends_its_request_with_an_id_of_its_own(page: Any, kind: str) -> None:
    show(page, a_topology(2, lost=(1,)))
    page.click(f".jd-{kind}")
    page.click(f".jd-{kind}")
    first, second = sent(page)
    assert set(first) == {"id", "kind"}
    assert first["kind"] == second["kind"] == kind
    assert first["id"] != second["id"]


def test_heal_can_be_pressed_only_when_a_rank_is_lost(page: Any) -> None:
    assert page.is_disabled(".jd-heal")
    show(page, a_topology(2, lost=(1,)))
    assert page.is_enabled(".jd-heal")
    show(page, a_topology(3, lost=(1,), state="gone"))
    for kind in (*KINDS, "stop"):
        assert page.is_disabled(f".jd-{kind}")


def test_several_requests_tell_each_how_far_it_is(page: Any) -> None:
    show(page, a_topology(2, lost=(1,)))
    page.click(".jd-heal")
    page.click(".jd-interrupt")
    heal, interrupt = sent(page)
    assert lines(page) == ["interrupt: sent…", "heal: sent…"]
    answer(page, heal, "rank 1 replaced, joining…", is_final=False)
    answer(page, interrupt, "ranks 0-3 signalled")
    assert lines(page) == [
        "interrupt: delivered: ranks 0-3 signalled",
        "heal: rank 1 replaced, joining…",
    ]
    page.clock.run_for(12_000)
    assert lines(page)[1] == "heal: rank 1 replaced, joining…"
    newer, older = ages(page)
    assert re.fullmatch(r" · 1\d s ago", newer)
    assert re.fullmatch(r" · 1\d s", older)
    answer(page, heal, "node-a is full", ok=False)
    assert re.fullmatch(r"heal: not done \(after 1\d s\): node-a is full", lines(page)[1])
    assert ages(page)[1] == ""
    assert page.locator(".jd-request").nth(1).get_attribute("data-ok") == "no"


def test_no_answer_is_said_and_a_late_one_is_still_taken(page: Any) -> None:
    page.click(".jd-interrupt")
    page.clock.run_for(2050)
    (line,) = lines(page)
    assert_tells(line, "interrupt: no answer", " 2 s: ", "■")
    page.clock.run_for(10_000)
    assert lines(page) == [line]
    answer(page, sent(page)[0], "ranks 0-3 signalled")
    (line,) = lines(page)
    assert re.fullmatch(r"interrupt: delivered \(after 1\d s\): ranks 0-3 signalled", line)


def test_an_answer_in_time_is_not_followed_by_a_complaint(page: Any) -> None:
    page.click(".jd-stacks")
    answer(page, sent(page)[0], "asking ranks…", is_final=False)
    page.clock.run_for(5000)
    assert lines(page) == ["stacks: asking ranks…"]


def test_what_cannot_be_sent_says_so(page: Any) -> None:
    page.evaluate("void (model.send = () => { throw new Error('comm closed') })")
    page.click(".jd-interrupt")
    assert lines(page) == ["interrupt: not sent: Error: comm closed"]
    page.clock.run_for(4000)
    assert lines(page) == ["interrupt: not sent: Error: comm closed"]
    assert ages(page)[0].endswith(" s ago")


def test_only_the_last_requests_are_shown_and_those_that_went_well_not_for_ever(page: Any) -> None:
    for number in range(6):
        page.click(".jd-interrupt")
        answer(page, sent(page)[-1], f"number {number}")
    assert lines(page) == [f"interrupt: delivered: number {number}" for number in (5, 4, 3, 2)]
    page.clock.run_for(62_000)
    assert page.is_hidden(".jd-requests")
    page.click(".jd-stacks")
    assert lines(page) == ["stacks: sent…"]


def test_an_answer_to_another_view_and_one_that_comes_twice_change_nothing(page: Any) -> None:
    page.click(".jd-interrupt")
    (request,) = sent(page)
    answer(page, {"id": "another"}, "of another view")
    assert lines(page) == ["interrupt: sent…"]
    answer(page, request, "first")
    answer(page, request, "second")
    assert lines(page) == ["interrupt: delivered: first"]


def test_stop_wants_a_second_click(page: Any) -> None:
    page.click(".jd-stop")
    assert page.inner_text(".jd-stop") == "Really stop demo?"
    assert sent(page) == []
    page.clock.run_for(3100)
    assert page.inner_text(".jd-stop") == "Stop demo…"
    page.click(".jd-stop")
    page.click(".jd-stop")
    assert [request["kind"] for request in sent(page)] == ["stop"]


@pytest.mark.parametrize(("kind", "title"), [("stacks", "Stacks"), ("explain", "Explanation")])
def test_a_text_that_was_asked_for_is_shown_until_it_is_closed(
    page: Any, kind: str, title: str
) -> None:
    page.click(f".jd-{kind}")
    answer(page, sent(page)[0], "there", sections=[{"title": kind, "text": LONG}])
    assert page.inner_text(".jd-answer h3") == title
    assert page.inner_text(".jd-answer pre").startswith("line 0 of a stack")
    page.click(f".jd-{kind}")
    answer(page, sent(page)[1], "there", sections=[{"title": kind, "text": "<b>newer</b>"}])
    assert page.locator(".jd-answer").count() == 1
    assert page.inner_text(".jd-answer pre") == "<b>newer</b>"
    page.click(".jd-answer .jd-close")
    assert page.locator(".jd-answer").count() == 0
    assert focused(page) == f"jd-{kind}"


def test_a_hang_that_an_open_explanation_tells_is_told_there_alone(page: Any) -> None:
    hang = "rank 0 waits in barrier #9 for {} s; rank 1 has not called it yet"
    show(page, a_topology(2, note=hang.format(5)))
    assert page.inner_text(".jd-note") == hang.format(5)
    page.click(".jd-explain")
    said = f"In[3]: {hang.format(6)}\n%dist_heal replaces it"
    answer(page, sent(page)[0], "see below", sections=[{"title": "explain", "text": said}])
    show(page, a_topology(3, note=hang.format(8)))
    assert page.locator(".jd-note").is_hidden()
    assert page.inner_text(".jd-topology").count("barrier #9") == 1
    show(page, a_topology(4, note="rank 2 waits in all_gather #3 for 4 s"))
    assert "all_gather" in page.inner_text(".jd-note")
    show(page, a_topology(5, note=hang.format(9)))
    page.click(".jd-answer .jd-close")
    show(page, a_topology(6, note=hang.format(9)))
    assert page.inner_text(".jd-note") == hang.format(9)


def test_who_only_watches_is_offered_nothing_that_changes_the_cluster(open_view: OpenView) -> None:
    page = open_view()
    page.evaluate(
        """async () => {
          const { createView } = await import('/view.js');
          document.body.replaceChildren();
          window.view = createView(document.body, () => {}, { isObserver: true });
        }"""
    )
    page.evaluate("state => view.update(state)", msgspec.to_builtins(a_topology(lost=(3,))))
    for kind in ("interrupt", "heal", "stop"):
        assert page.is_disabled(f".jd-{kind}"), kind
        assert "only observes" in str(page.get_attribute(f".jd-{kind}", "title"))
    for kind in ("stacks", "explain"):
        assert page.is_enabled(f".jd-{kind}"), kind
    page.evaluate("view.destroy()")


def test_a_page_beside_the_kernel_names_who_does_not_answer(open_view: OpenView) -> None:
    page = open_view(has_test_clock=True)
    page.evaluate(
        """async () => {
          const { createView } = await import('/view.js');
          window.heard = [];
          window.view = createView(document.body, request => heard.push(request),
                                   { source: 'the Jupyter server' });
        }"""
    )
    state = msgspec.to_builtins(a_topology())
    page.evaluate("state => view.update(state)", state)
    page.locator(".jd-interrupt").last.click()
    page.clock.run_for(2100)
    assert_tells(lines(page)[-1], "interrupt: no answer", " 2 s ", "Jupyter server")
    page.clock.run_for(6000)
    assert_tells(page.locator(".jd-stale").last.inner_text(), "no news", "Jupyter server")
    page.evaluate("view.destroy()")
    assert page.locator(".jd-topology").count() == 1


# --- the rank panel ---


@pytest.mark.parametrize("way", ["Enter", "click"])
def test_a_seat_opens_its_rank_and_asks_for_everything_about_it(page: Any, way: str) -> None:
    if way == "click":
        page.click('[data-rank="2"]')
    else:
        page.focus('[data-rank="2"]')
        page.keyboard.press(way)
    (request,) = sent(page)
    assert (request["kind"], request["rank"]) == ("rank", 2)
    assert page.inner_text(".jd-rank-panel h3") == "Rank 2"
    assert page.locator(".jd-rank-panel h4").all_inner_texts() == PARTS
    assert page.evaluate(SHAPES) == ["reading…"] * 4
    assert focused(page) == "jd-panel-title"
    assert page.locator(".jd-request").count() == 0


def test_parts_appear_as_they_come_and_nodes_stay(page: Any) -> None:
    request = open_panel(page, 1)
    answer(page, request, "rank 1: reading…", is_final=False, sections=sections("last lines"))
    assert page.evaluate(SHAPES) == ["reading…", f"{PARTS[1]} known", "reading…", "reading…"]
    page.evaluate("window.before = [...document.querySelectorAll('.jd-rank-panel pre')]")
    answer(page, request, "rank 1", sections=sections(*PARTS))
    assert page.evaluate(SHAPES) == [f"{part} known" for part in PARTS]
    assert page.evaluate(
        "[...document.querySelectorAll('.jd-rank-panel pre')].every((node, i) => node === before[i])"
    )
    assert page.inner_text(".jd-panel-when").startswith("as of ")


def test_escape_closes_the_panel_and_gives_the_focus_back_to_the_seat(page: Any) -> None:
    open_panel(page, 3)
    page.keyboard.press("Tab")
    assert focused(page) == "jd-refresh"
    page.keyboard.press("Escape")
    assert page.locator(".jd-rank-panel").count() == 0
    assert focused(page) == "rank 3"
    page.keyboard.press("ArrowLeft")
    assert focused(page) == "rank 2"
    page.keyboard.press("Enter")
    assert page.inner_text(".jd-rank-panel h3") == "Rank 2"
    page.click(".jd-rank-panel .jd-close")
    assert focused(page) == "rank 2"


def test_news_of_the_cluster_neither_close_the_panel_nor_take_the_focus(page: Any) -> None:
    request = open_panel(page, 1)
    answer(page, request, "rank 1", sections=sections(*PARTS, text=LONG))
    page.focus(".jd-refresh")
    page.evaluate("document.querySelector('.jd-rank-panel pre').scrollTop = 100")
    for sequence in range(2, 8):
        page.clock.run_for(1000)
        show(page, a_topology(sequence, lost=(1,) if sequence > 5 else ()))
    assert focused(page) == "jd-refresh"
    assert page.evaluate("document.querySelector('.jd-rank-panel pre').scrollTop") == 100
    assert "lost" in page.inner_text(".jd-panel-facts")
    show(page, a_topology(9, ranks=1))
    assert page.inner_text(".jd-panel-facts").startswith("rank 1 is not")
    assert page.is_disabled(".jd-replace-rank")
    assert focused(page) == "jd-refresh"


def test_refresh_asks_again_and_keeps_what_was_there(page: Any) -> None:
    first = open_panel(page, 1)
    answer(page, first, "rank 1", sections=sections(*PARTS))
    page.click(".jd-refresh")
    second = sent(page)[-1]
    assert (second["kind"], second["rank"]) == ("rank", 1)
    assert page.evaluate(SHAPES)[0] == "stack known"
    assert page.inner_text(".jd-panel-when") == "reading…"
    answer(page, second, "all ended", ok=False)
    assert page.inner_text(".jd-panel-when") == "all ended"
    assert page.evaluate(SHAPES)[0] == "stack known"
    page.click(".jd-refresh")
    page.clock.run_for(2050)
    assert_tells(page.inner_text(".jd-panel-when"), "no answer", " 2 s: ", "■")


def test_an_answer_about_a_rank_that_is_not_open_any_more_is_left_out(page: Any) -> None:
    first = open_panel(page, 1)
    open_panel(page, 2)
    answer(page, first, "rank 1", sections=sections(*PARTS))
    assert page.evaluate(SHAPES) == ["reading…"] * 4


def test_one_rank_is_interrupted_at_once_and_replaced_on_the_second_click(page: Any) -> None:
    open_panel(page, 2)
    page.click(".jd-interrupt-rank")
    page.click(".jd-replace-rank")
    assert page.inner_text(".jd-replace-rank") == "Really replace?"
    page.click(".jd-replace-rank")
    _, interrupt, heal = sent(page)
    assert (interrupt["kind"], interrupt["ranks"]) == ("interrupt", [2])
    assert (heal["kind"], heal["ranks"]) == ("heal", [2])
    assert lines(page) == ["replace rank 2: sent…", "interrupt rank 2: sent…"]


def test_curves_grow_with_what_is_seen(page: Any) -> None:
    open_panel(page, 0)
    for sequence in range(2, 12):
        page.clock.run_for(1000)
        show(page, a_topology(sequence))
    captions = page.locator(".jd-rank-panel figcaption").all_inner_texts()
    assert [caption.split(":")[0] for caption in captions] == ["memory", "CPU"]
    assert "106 MiB now, 96 MiB to 106 MiB" in captions[0]
    points = page.evaluate(
        "document.querySelector('.jd-rank-panel .jd-curve-line').getAttribute('d').split('L').length"
    )
    assert points == 11


def test_a_rank_on_a_gpu_shows_the_curves_of_its_gpu(page: Any) -> None:
    whole = a_topology(2)
    engines = tuple(msgspec.structs.replace(e, device=e.rank) for e in whole.hosts[0].engines)
    gpus = tuple(
        GpuView(index=n, name="H200", memory_used_bytes=10**9, memory_total_bytes=141 * 10**9)
        for n in range(4)
    )
    host = msgspec.structs.replace(whole.hosts[0], engines=engines, gpus=gpus)
    show(page, msgspec.structs.replace(whole, hosts=(host,)))
    open_panel(page, 1)
    captions = page.locator(".jd-rank-panel figcaption").all_inner_texts()
    assert [text.split(":")[0] for text in captions] == ["GPU memory", "GPU utilisation", "memory"]


def test_texts_of_ranks_are_text_and_never_markup(page: Any) -> None:
    evil = "<img src=x onerror=alert(1)>"
    request = open_panel(page, 1)
    answer(page, request, evil, ok=False, sections=[{"title": evil, "text": evil}])
    page.click(".jd-stacks")
    answer(page, sent(page)[-1], evil, sections=[{"title": evil, "text": evil}])
    assert page.locator(".jd-topology img").count() == 0
    assert evil in page.inner_text(".jd-panel-when")


@pytest.mark.parametrize("scheme", only(["light"], ["light", "dark"]))
def test_axe_finds_no_violation(open_view: OpenView, scheme: str) -> None:
    if not AXE.exists():
        pytest.skip("no axe-core: run `npm ci` in labextension")
    page = open_view(a_topology(2, lost=(3,)), height=1100, color_scheme=scheme)
    request = open_panel(page, 3)
    answer(page, request, "late", ok=False, sections=sections(*PARTS, text=LONG))
    page.click(".jd-explain")
    answer(page, sent(page)[-1], "no", ok=False, sections=[{"title": "explanation", "text": LONG}])
    page.click(".jd-stop")
    page.add_script_tag(path=AXE)
    found = page.evaluate(
        """async () => (await axe.run('.jd-topology')).violations
          .map(each => `${each.id}: ${each.help}: ${each.nodes.map(node => node.html).join()}`)"""
    )
    assert found == []


@pytest.mark.parametrize(("width", "scheme"), [(960, "light"), (960, "dark"), (320, "light")])
def test_the_panel_can_be_looked_at(
    open_view: OpenView, tmp_path: Any, width: int, scheme: str
) -> None:
    page = open_view(a_topology(2, lost=(3,)), width=width, height=1100, color_scheme=scheme)
    request = open_panel(page, 1)
    stack = "rank 1\n  In[3]:12: loss = train(batch)\n▶ In[2]:40 in train: comm.all_reduce(grads)"
    told = [
        {"title": "stack", "text": stack},
        {"title": "last lines", "text": "In[3]: running\nepoch 1\nepoch 2 loss 0.31"},
        {"title": "collectives", "text": "#17 all_reduce(float32[4], sum) at In[2]:40: inside"},
        {"title": "variables", "text": "name     type     memory\nweights  ndarray  703 KiB"},
    ]
    answer(page, request, "rank 1", sections=told)
    page.click(".jd-stacks")
    answer(page, sent(page)[-1], "there", sections=[{"title": "stacks", "text": stack}])
    page.screenshot(path=tmp_path / f"panel_{width}_{scheme}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
