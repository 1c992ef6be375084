"""The topology view in a real browser, with topologies made here."""

import itertools
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jupyter_dist.model.topology import (
    CollectiveView,
    EngineView,
    GpuView,
    HostView,
    LinkGroup,
    Topology,
)

pytestmark = pytest.mark.browser

OpenView = Callable[..., Any]
STATES = ("starting", "idle", "busy", "collective", "hung", "lost", "left")
WAITS = "waits in all_reduce #17 for 12 s; rank 5 has not called it yet"


def an_engine(rank: int, local_rank: int, state: str, tick: int = 0) -> EngineView:
    works = state in ("busy", "collective", "hung")
    inside = state in ("collective", "hung")
    age_s = 12.4 if state == "hung" else 0.4
    numbers = state not in ("starting", "lost", "left")
    return EngineView(
        rank=rank,
        local_rank=local_rank,
        pid=0 if state == "starting" else 4000 + rank,
        state=state,
        reason={"hung": WAITS, "lost": "killed by signal 9"}.get(state, ""),
        beat_age_s=(rank * 0.13 + tick * 0.07) % 0.9,
        cpu_percent=((rank * 37 + tick * 5) % 100 if works else 0.7) if numbers else 0,
        rss_bytes=(120 + rank * 61 + tick) * 10**6 * (9 if works else 1) if numbers else 0,
        cell="In[3]" if works else "",
        busy_s=14.2 if works else 0.0,
        collective=CollectiveView(17, "all_reduce", age_s, inside, "In[3]:7") if works else None,
    )


def a_host(name: str, engines: list[EngineView], **more: Any) -> HostView:
    return HostView(
        name=name,
        state="up",
        cpu_count=32,
        cpu_percent=41.0,
        memory_total_bytes=64 * 10**9,
        memory_used_bytes=19 * 10**9,
        engines=tuple(engines),
        **more,
    )


def two_hosts(tick: int = 0) -> Topology:
    first = ["collective", "collective", "hung", "collective"]
    second = ["idle", "busy", "lost", "starting"]
    engines = [an_engine(i, i, state, tick) for i, state in enumerate(first)]
    others = [an_engine(4 + i, i, state, tick) for i, state in enumerate(second)]
    others[0] = msgspec.structs.replace(others[0], beat_age_s=4.2)
    return Topology(
        cluster="demo",
        state="ready",
        generation=2,
        sequence=tick + 1,
        note="ranks 0-3 wait in all_reduce #17 (In[3]:7) for 12 s; rank 5 has not called it yet",
        hosts=(a_host("node-a", engines), a_host("node-b", others)),
    )


def one_rank(state: str) -> Topology:
    host = a_host("node-a", [an_engine(0, 0, state)])
    return Topology(cluster="demo", state="ready", sequence=1, hosts=(host,))


def with_gpus(links: tuple[LinkGroup, ...], ranks: int = 8) -> Topology:
    states = ["busy", "collective", "busy", "busy", "idle", "busy", "collective", "busy"]
    engines = [msgspec.structs.replace(an_engine(i, i, states[i]), device=i) for i in range(ranks)]
    gpus = tuple(
        GpuView(
            index=i,
            name="NVIDIA H200",
            utilisation_percent=(i * 31 + 40) % 100 if i < ranks else 0.0,
            memory_used_bytes=(i * 13 + 9) * 10**9,
            memory_total_bytes=141 * 10**9,
        )
        for i in range(8)
    )
    host = a_host("dgx-1", engines, gpus=gpus, links=links)
    return Topology(cluster="gpus", state="ready", generation=1, sequence=1, hosts=(host,))


def many(ranks: int, tick: int = 0) -> Topology:
    hosts = []
    for number in range(ranks // 8):
        states = [
            STATES[(number * 3 + i + tick // 4) % 7 if number % 9 == 4 else 2] for i in range(8)
        ]
        engines = [an_engine(number * 8 + i, i, states[i], tick) for i in range(8)]
        hosts.append(a_host(f"node-{number:02}", engines))
    return Topology(cluster="big", state="ready", generation=1, sequence=tick, hosts=tuple(hosts))


def show(page: Any, topology: Topology) -> None:
    # As text: Playwright takes seconds over each value of a large one.
    text = msgspec.json.encode(topology).decode()
    page.evaluate("text => window.model.show(JSON.parse(text))", text)


def all_pairs(count: int, kind: str = "nvlink", lanes: int = 18) -> tuple[LinkGroup, ...]:
    pairs = itertools.combinations(range(count), 2)
    return tuple(LinkGroup(kind=kind, gpus=pair, lanes=lanes) for pair in pairs)


def text_of(page: Any, selector: str) -> str:
    return str(page.inner_text(selector)).strip()


@pytest.mark.parametrize("state", STATES)
def test_each_state_has_its_own_glyph_outline_and_word(open_view: OpenView, state: str) -> None:
    page = open_view()
    looks = {}
    for each in STATES:
        show(page, one_rank(each))
        looks[each] = page.evaluate(
            """() => {
              const cell = document.querySelector('[data-rank="0"]');
              const glyph = getComputedStyle(cell.querySelector('.jd-glyph'));
              const box = getComputedStyle(cell.querySelector('.jd-box'));
              const path = cell.querySelector('.jd-glyph').getAttribute('d');
              return { state: cell.dataset.state, label: cell.getAttribute('aria-label'),
                       shape: path + glyph.strokeDasharray, outline: box.stroke + box.strokeDasharray };
            }"""
        )
    mine = looks.pop(state)
    word = {"collective": "in collective", "hung": "hung?"}.get(state, state)
    assert mine["state"] == state
    assert word in mine["label"]
    assert mine["shape"] not in [other["shape"] for other in looks.values()]
    assert mine["outline"] not in [other["outline"] for other in looks.values()]


def test_the_header_names_the_cluster_and_counts_the_states(open_view: OpenView) -> None:
    page = open_view()
    show(page, two_hosts())
    assert text_of(page, ".jd-name") == "demo"
    assert text_of(page, ".jd-badge") == "ready"
    assert text_of(page, ".jd-generation") == "generation 2"
    counts = "1 starting · 1 idle · 1 busy · 3 in collective · 1 hung? · 1 lost"
    assert page.text_content("[aria-live=polite].jd-summary") == counts
    assert "rank 5 has not called it yet" in text_of(page, ".jd-note")
    root = page.locator(".jd-topology")
    assert root.get_attribute("data-cluster-state") == "ready"
    assert root.get_attribute("data-sequence") == "1"


def test_an_update_keeps_the_nodes_it_drew(open_view: OpenView) -> None:
    page = open_view()
    show(page, two_hosts())
    page.evaluate("window.before = [...document.querySelectorAll('.jd-drawing *')]")
    show(page, two_hosts(tick=7))
    assert page.evaluate(
        """() => { const now = [...document.querySelectorAll('.jd-drawing *')];
          return now.length === before.length && now.every((node, i) => node === before[i]); }"""
    )
    assert page.locator(".jd-topology").get_attribute("data-sequence") == "8"


def test_a_rank_that_goes_leaves_the_others_nodes_and_the_focus_alone(open_view: OpenView) -> None:
    page = open_view()
    show(page, two_hosts())
    page.focus('[data-rank="1"]')
    page.evaluate("window.one = document.activeElement")
    whole = two_hosts(tick=2)
    fewer = msgspec.structs.replace(whole.hosts[0], engines=whole.hosts[0].engines[:3])
    show(page, msgspec.structs.replace(whole, hosts=(fewer, whole.hosts[1])))
    assert page.locator('[data-rank="3"]').count() == 0
    assert page.evaluate("document.activeElement === window.one && window.one.isConnected")


def test_arrows_home_and_end_walk_over_the_ranks(open_view: OpenView) -> None:
    page = open_view()
    show(page, with_gpus(all_pairs(8)))
    page.set_viewport_size({"width": 520, "height": 700})
    page.wait_for_function("document.querySelector('.jd-drawing').clientWidth < 500")
    page.focus('[data-rank="0"]')
    walked = []
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "End", "ArrowRight", "Home"):
        page.keyboard.press(key)
        walked.append(page.evaluate("document.activeElement.dataset.rank"))
    assert walked == ["1", "5", "4", "0", "7", "7", "0"]
    assert page.locator('[tabindex="0"][data-key]').count() == 1


def test_the_detail_line_says_in_words_all_that_is_known(open_view: OpenView) -> None:
    page = open_view()
    show(page, two_hosts())
    page.focus('[data-rank="2"]')
    said = text_of(page, ".jd-detail")
    for fact in (
        "rank 2", "on node-a", "pid 4002", f"hung?: {WAITS}", "running In[3] for 14 s",
        "last collective #17 all_reduce, inside for 12 s at In[3]:7", "CPU 74 %", "memory 2.2 GB",
        "heartbeat 0.3 s ago",
    ):  # fmt: skip
        assert fact in said
    page.hover('[data-rank="6"]')
    assert "lost: killed by signal 9" in text_of(page, ".jd-detail")


def test_a_late_heartbeat_is_said_on_the_cell(open_view: OpenView) -> None:
    page = open_view()
    show(page, two_hosts())
    assert page.text_content('[data-rank="4"] .jd-late') == "♥ 4.2 s"
    assert page.text_content('[data-rank="5"] .jd-late') == ""


def test_an_interrupt_is_sent_then_delivered(open_view: OpenView) -> None:
    page = open_view()
    show(page, two_hosts())
    page.click(".jd-interrupt")
    assert text_of(page, ".jd-request") == "interrupt: sent…"
    sent = page.evaluate("model.sent")
    assert [message["kind"] for message in sent] == ["interrupt"]
    reply = {"kind": "reply", "id": sent[0]["id"], "ok": True, "text": "ranks 0-3 were signalled"}
    page.evaluate("reply => model.emit('msg:custom', reply)", {**reply, "id": "another"})
    assert text_of(page, ".jd-request") == "interrupt: sent…"
    page.evaluate("reply => model.emit('msg:custom', reply)", reply)
    assert text_of(page, ".jd-request") == "interrupt: delivered: ranks 0-3 were signalled"


def test_no_answer_is_said_after_two_seconds(open_view: OpenView) -> None:
    page = open_view(has_test_clock=True)
    show(page, two_hosts())
    page.click(".jd-interrupt")
    page.clock.run_for(1900)
    assert "sent…" in text_of(page, ".jd-request")
    page.clock.run_for(200)
    assert text_of(page, ".jd-request") == "interrupt: no answer after 2 s: use ■"


def test_stop_wants_a_second_click_within_three_seconds(open_view: OpenView) -> None:
    page = open_view(has_test_clock=True)
    show(page, two_hosts())
    page.click(".jd-stop")
    page.clock.run_for(3100)
    page.click(".jd-stop")
    assert page.evaluate("model.sent") == []
    assert text_of(page, ".jd-stop") == "Really stop?"
    page.clock.run_for(500)
    page.click(".jd-stop")
    assert [message["kind"] for message in page.evaluate("model.sent")] == ["stop"]


def test_silence_is_called_silence_and_news_ends_it(open_view: OpenView) -> None:
    page = open_view(has_test_clock=True)
    show(page, two_hosts())
    page.clock.run_for(4000)
    assert page.is_hidden(".jd-stale")
    page.clock.run_for(3000)
    assert "no news from the kernel for " in text_of(page, ".jd-stale")
    assert page.locator(".jd-topology[data-stale]").count() == 1
    show(page, two_hosts(tick=1))
    assert page.is_hidden(".jd-stale")


@pytest.mark.parametrize("state", ["stopped", "gone"])
def test_a_cluster_that_ended_is_shown_so_and_takes_no_orders(
    open_view: OpenView, state: str
) -> None:
    page = open_view(has_test_clock=True)
    show(page, msgspec.structs.replace(two_hosts(), state=state))
    assert text_of(page, ".jd-badge") == state
    assert page.is_disabled(".jd-interrupt")
    assert page.is_disabled(".jd-stop")
    page.clock.run_for(9000)
    assert page.is_hidden(".jd-stale")


def test_gpus_joined_alike_share_one_bus(open_view: OpenView) -> None:
    page = open_view()
    show(page, with_gpus(all_pairs(8)))
    assert page.text_content(".jd-link-label") == "NVLink ×18 all-to-all"  # noqa: RUF001
    assert page.locator(".jd-link title").count() == 0
    show(
        page,
        with_gpus(tuple(LinkGroup(kind="nvlink", gpus=pair, lanes=4) for pair in ((0, 1), (2, 3)))),
    )
    assert page.text_content(".jd-link-label") == "NVLink ×4: 2 pairs"  # noqa: RUF001
    assert page.locator(".jd-link title").count() == 2


def test_a_gpu_without_a_rank_is_shown_without_one(open_view: OpenView) -> None:
    page = open_view()
    show(page, with_gpus(all_pairs(8), ranks=6))
    assert page.locator("[data-rank]").count() == 6
    assert page.locator('[data-state="free"]').count() == 2


def test_names_are_text_and_never_markup(open_view: OpenView) -> None:
    page = open_view()
    evil = "<img src=x onerror=alert(1)>"
    host = a_host(evil, [msgspec.structs.replace(an_engine(0, 0, "lost"), reason=evil)])
    show(page, Topology(cluster=evil, state="ready", note=evil, hosts=(host,)))
    page.focus('[data-rank="0"]')
    assert page.locator(".jd-topology img").count() == 0
    assert evil in text_of(page, ".jd-detail")


def test_an_update_of_512_ranks_is_quick(open_view: OpenView) -> None:
    page = open_view(width=1000, height=900)
    show(page, many(512))
    states = msgspec.json.encode([many(512, tick) for tick in range(1, 22)]).decode()
    times_ms = page.evaluate(
        """states => JSON.parse(states).map(state => { const start = performance.now();
             model.show(state); return performance.now() - start; })""",
        states,
    )
    median_ms = statistics.median(times_ms)
    print(f"512 ranks: {median_ms:.1f} ms of script per update (median)")
    assert page.locator("[data-rank]").count() == 512
    # 10 ms is the aim; a shared machine may be slower, a re-creation of all nodes is far slower.
    assert median_ms < 25, times_ms


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_view_can_be_looked_at(open_view: OpenView, tmp_path: Path, scheme: str) -> None:
    pictures = {
        "two_hosts": (two_hosts(), 960),
        "bus": (with_gpus(all_pairs(8)), 960),
        "bus_narrow": (with_gpus(all_pairs(8), ranks=6), 520),
        "arcs": (with_gpus(tuple(LinkGroup(kind="nvlink", gpus=(a, (a + d) % 8), lanes=2 // d) for a in range(8) for d in (1, 2)), ranks=7), 960),
        "many": (many(512), 1000),
    }  # fmt: skip
    for name, (topology, width) in pictures.items():
        page = open_view(width=width, color_scheme=scheme)
        show(page, topology)
        page.focus('[data-rank="2"]')
        page.mouse.move(1, 1)
        page.screenshot(path=tmp_path / f"{name}_{scheme}.png", full_page=True)
    grounds = page.evaluate(
        "getComputedStyle(document.querySelector('.jd-topology')).backgroundColor"
    )
    assert grounds == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 22, 24)"}[scheme]
