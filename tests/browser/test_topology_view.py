"""The topology view in a real browser, with clusters that are made up."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from jupyter_dist.model.hosts.topology import GpuProcess, HostView, Topology
from tests.facts import assert_tells

from .topologies import (
    HGX_LINKS,
    STATES,
    WAITS,
    a_cluster,
    a_gpu,
    a_host,
    an_engine,
    local,
    many,
    one_rank,
    shared_and_several,
    show,
    text_content,
    text_of,
    two_hosts,
    with_gpus,
)

pytestmark = pytest.mark.browser

OpenView = Callable[..., Any]
replace = msgspec.structs.replace


def test_each_state_has_its_own_glyph_outline_and_word(open_view: OpenView) -> None:
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
    for state, look in looks.items():
        assert look["state"] == state
        assert {"collective": "in collective", "hung": "hung?"}.get(state, state) in look["label"]
    for part in ("shape", "outline"):
        assert len({look[part] for look in looks.values()}) == len(STATES)


def test_the_header_names_the_cluster_and_counts_the_states(open_view: OpenView) -> None:
    page = open_view(two_hosts())
    assert text_of(page, ".jd-name") == "demo"
    assert text_of(page, ".jd-badge") == "ready"
    assert text_of(page, ".jd-generation") == "generation 2"
    counts = "1 starting · 1 idle · 1 busy · 3 in collective · 1 hung? · 1 lost"
    assert page.text_content(".jd-counts") == counts
    assert "rank 5 has not" in text_of(page, ".jd-note")
    root = page.locator(".jd-topology")
    assert root.get_attribute("data-cluster-state") == "ready"
    assert root.get_attribute("data-sequence") == "1"


def test_an_update_keeps_the_nodes_it_drew(open_view: OpenView) -> None:
    page = open_view(two_hosts())
    page.evaluate("window.before = [...document.querySelectorAll('.jd-drawing *')]")
    show(page, two_hosts(tick=7))
    assert page.evaluate(
        """() => { const now = [...document.querySelectorAll('.jd-drawing *')];
          return now.length === before.length && now.every((node, i) => node === before[i]); }"""
    )
    assert page.locator(".jd-topology").get_attribute("data-sequence") == "8"


def test_a_rank_that_goes_leaves_the_others_nodes_and_the_focus_alone(open_view: OpenView) -> None:
    page = open_view(two_hosts())
    page.focus('[data-rank="1"]')
    page.evaluate("window.one = document.activeElement")
    whole = two_hosts(tick=2)
    fewer = replace(whole.hosts[0], engines=whole.hosts[0].engines[:3])
    show(page, replace(whole, hosts=(fewer, whole.hosts[1])))
    assert page.locator('[data-rank="3"]').count() == 0
    assert page.evaluate("document.activeElement === window.one && window.one.isConnected")


def test_arrows_home_and_end_walk_over_the_ranks(open_view: OpenView) -> None:
    page = open_view(with_gpus(HGX_LINKS))
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
    page = open_view(two_hosts())
    page.focus('[data-rank="2"]')
    said = text_of(page, ".jd-detail")
    for fact in (
        "rank 2", "on node-a", "pid 4002", f"hung?: {WAITS}", "running In[3] for 14 s",
        "last collective #17 all_reduce, inside for 12 s at In[3]:7", "CPU 74 %", "memory 2.0 GiB",
        "heartbeat 0.3 s ago",
    ):  # fmt: skip
        assert fact in said
    page.hover('[data-rank="6"]')
    assert_tells(text_of(page, ".jd-detail"), "lost: ", "signal 9")


def test_a_late_heartbeat_is_said_on_the_cell(open_view: OpenView) -> None:
    page = open_view(two_hosts())
    assert page.text_content('[data-rank="4"] .jd-late') == "♥ 4.2 s"
    assert page.text_content('[data-rank="5"] .jd-late') == ""


def test_silence_is_called_silence_and_news_ends_it(open_view: OpenView) -> None:
    page = open_view(two_hosts(), has_test_clock=True)
    page.clock.run_for(4000)
    assert page.is_hidden(".jd-stale")
    page.clock.run_for(3000)
    assert_tells(text_of(page, ".jd-stale"), "no news", "kernel")
    assert page.locator(".jd-topology[data-stale]").count() == 1
    show(page, two_hosts(tick=1))
    assert page.is_hidden(".jd-stale")


@pytest.mark.parametrize("state", ["stopped", "gone"])
def test_a_cluster_that_ended_is_shown_so_and_takes_no_orders(
    open_view: OpenView, state: str
) -> None:
    page = open_view(replace(two_hosts(), state=state), has_test_clock=True)
    assert text_of(page, ".jd-badge") == state
    assert page.is_disabled(".jd-interrupt")
    assert page.is_disabled(".jd-stop")
    page.clock.run_for(9000)
    assert page.is_hidden(".jd-stale")


def test_a_gpu_without_a_rank_is_shown_without_one(open_view: OpenView) -> None:
    page = open_view(with_gpus(HGX_LINKS, ranks=6))
    assert page.locator("[data-rank]").count() == 6
    assert page.locator('[data-state="free"]').count() == 2


def test_names_are_text_and_never_markup(open_view: OpenView) -> None:
    page = open_view()
    evil = "<img src=x onerror=alert(1)>"
    host = a_host(evil, [replace(an_engine(0, 0, "lost"), reason=evil)])
    show(page, Topology(cluster=evil, state="ready", note=evil, hosts=(host,)))
    page.focus('[data-rank="0"]')
    assert page.locator(".jd-topology img").count() == 0
    assert evil in text_of(page, ".jd-detail")


def test_a_screen_reader_hears_changed_words_only_and_not_more_than_every_two_seconds(
    open_view: OpenView,
) -> None:
    page = open_view(local(("busy", "busy", "collective", "idle")), has_test_clock=True)
    said = page.locator(".jd-said[aria-live=polite]")
    assert said.text_content() == "1 idle, 3 working"
    page.evaluate(
        """() => { window.told = 0;
          new MutationObserver(() => told++).observe(document.querySelector('.jd-said'),
            { childList: true, characterData: true, subtree: true }); }"""
    )
    show(page, local(("collective", "collective", "busy", "idle")))
    show(page, local(("idle", "idle", "idle", "idle")))
    show(page, local(("idle", "idle", "lost", "idle")))
    page.clock.run_for(1500)
    assert page.evaluate("told") == 0
    page.clock.run_for(600)
    assert said.text_content() == "1 lost, 3 idle"
    assert page.evaluate("told") == 1


def test_a_rank_is_opened_by_click_enter_and_space_but_a_gpu_without_rank_is_not(
    open_view: OpenView,
) -> None:
    page = open_view()
    text = msgspec.json.encode(with_gpus(HGX_LINKS, ranks=6)).decode()
    page.evaluate(
        """async text => { const { createDrawing } = await import('/drawing.js');
          const place = document.body.appendChild(document.createElement('div'));
          place.id = 'alone'; window.opened = [];
          window.drawing = createDrawing(place, () => {}, (rank) => opened.push(rank));
          drawing.update(JSON.parse(text), 900); }""",
        text,
    )
    page.click('#alone [data-rank="3"]')
    page.focus('#alone [data-rank="1"]')
    page.keyboard.press("Enter")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.keyboard.press("Home")
    page.keyboard.press(" ")
    page.click('#alone [data-state="free"] >> nth=0')
    assert page.evaluate("opened") == [3, 1, 0]
    page.evaluate("drawing.focus(4)")
    assert page.evaluate("document.activeElement.dataset.rank") == "4"


def test_a_rank_with_several_gpus_fills_a_column_for_each(open_view: OpenView) -> None:
    page = open_view(shared_and_several())
    assert page.locator('[data-rank="2"] .jd-use').count() == 2
    heights = page.evaluate(
        """[...document.querySelectorAll('[data-rank="2"] .jd-use')].map(each => +each.getAttribute('height'))"""
    )
    assert heights[0] > heights[1] > 0, "GPU 1 is busier than GPU 2"
    label = page.get_attribute('[data-rank="2"]', "aria-label")
    assert "GPUs 1-2" in label
    assert page.locator('[data-state="free"]').count() == 1


def test_ranks_on_one_gpu_are_both_marked(open_view: OpenView) -> None:
    page = open_view(shared_and_several())
    for rank in (0, 1):
        assert page.get_attribute(f'[data-rank="{rank}"] .jd-shared', "d")
        assert "GPU 0, shared" in page.get_attribute(f'[data-rank="{rank}"]', "aria-label")
    assert not page.get_attribute('[data-rank="2"] .jd-shared', "d")
    page.focus('[data-rank="1"]')
    assert_tells(text_of(page, ".jd-detail"), "GPU shared", "ranks 0, 1")


# What is wrong, in words, and which of them count on.
ODD = {
    "ecc": ({"ecc_errors": 3}, "3 uncorrected ECC errors", ""),
    "xid": ({"xid": 79, "xid_age_s": 12.0}, "Xid 79 (12 s ago)", " (12 s ago)"),
    "heat": ({"is_throttled": True}, "slowed down (heat or power)", ""),
    "mig": ({"mig": "3 instances"}, "MIG 3 instances", ""),
    "gone": ({"problem": "GPU is lost"}, "GPU is lost", ""),
    "stranger": (
        {"strangers": (GpuProcess(pid=4711, name="python", memory_bytes=12 * 10**9),)},
        "used by another's python (pid 4711, 11 GiB)",
        ", 11 GiB",
    ),
}


@pytest.mark.parametrize("case", ODD)
def test_what_is_odd_of_a_gpu_is_marked_on_its_seat_and_said_in_words(
    open_view: OpenView, case: str
) -> None:
    page = open_view()
    more, words, counts = ODD[case]
    steady = words.replace(counts, "")
    calm = a_host("node-a", [an_engine(0, 0, "busy", device=0)], gpus=(a_gpu(0),))
    show(page, a_cluster(calm))
    assert page.is_hidden('[data-rank="0"] .jd-warning')
    assert page.locator(".jd-caption").count() == 0
    show(page, a_cluster(replace(calm, gpus=(a_gpu(0, **more),))))
    assert page.is_visible('[data-rank="0"] .jd-warning')
    assert page.get_attribute('[data-rank="0"]', "aria-label").endswith(f"warning: {steady}")
    assert page.get_attribute(".jd-host", "aria-label").endswith(f"GPU 0: {steady}")
    assert page.text_content(".jd-caption title") == f"⚠ GPU 0: {steady}"
    shown = text_content(page, ".jd-caption tspan")
    assert f"⚠ GPU 0: {words}".startswith(shown.removesuffix("…"))
    page.focus('[data-rank="0"]')
    assert f"⚠ {words}" in text_of(page, ".jd-detail")


def test_what_counts_on_of_an_odd_gpu_moves_nothing_and_keeps_labels(open_view: OpenView) -> None:
    page = open_view()

    def show_odd(age_s: float, used_bytes: int) -> None:
        stranger = GpuProcess(pid=4711, name="python", memory_bytes=used_bytes)
        gpu = a_gpu(0, xid=79, xid_age_s=age_s, strangers=(stranger,))
        show(page, a_cluster(a_host("node-a", [an_engine(0, 0, "busy", device=0)], gpus=(gpu,))))

    labels = "[...document.querySelectorAll('[aria-label]')].map(n => n.ariaLabel)"
    show_odd(12.0, 5 * 10**9)
    before = page.evaluate(labels)
    page.evaluate("window.before = [...document.querySelectorAll('.jd-drawing *')]")
    show_odd(13.0, 6 * 10**9)
    assert "Xid 79 (13 s ago)" in text_content(page, ".jd-caption")
    assert page.evaluate(
        """() => { const now = [...document.querySelectorAll('.jd-drawing *')];
          return now.length === before.length && now.every((node, i) => node === before[i]); }"""
    )
    assert page.evaluate(labels) == before


def test_an_old_sample_tells_its_age_and_a_fresh_one_does_not(open_view: OpenView) -> None:
    page = open_view()
    host = a_host("node-a", [an_engine(0, 0, "idle")], numa_nodes=2)
    show(page, a_cluster(replace(host, sampled_s=2.9)))
    assert "old" not in text_content(page, ".jd-host-facts")
    show(page, a_cluster(replace(host, sampled_s=7.2)))
    assert "7.2 s old" in text_content(page, ".jd-host-facts")


def test_more_than_64_seats_are_drawn_small_and_their_links_said(open_view: OpenView) -> None:
    page = open_view(many(64), width=1000, height=900)
    assert page.locator(".jd-dense").count() == 0
    assert page.is_hidden(".jd-filter")
    show(page, many(72))
    assert page.locator(".jd-dense").count() == 72
    assert page.is_visible(".jd-filter")
    host = with_gpus(HGX_LINKS).hosts[0]
    engines = tuple(an_engine(i, i, "busy", device=i % 8) for i in range(72))
    show(page, a_cluster(replace(host, engines=engines)))
    assert page.text_content(".jd-caption title") == "NVLink ×18 all-to-all"  # noqa: RUF001
    assert page.locator(".jd-link").count() == 0


def test_more_than_64_seats_are_drawn_with_pauses_and_the_newest_picture_wins(
    open_view: OpenView,
) -> None:
    page = open_view(width=1000, height=900, has_test_clock=True)
    drawn = partial(page.get_attribute, ".jd-topology", "data-sequence")

    def show_with(sequence: int, ranks: int) -> None:
        show(page, replace(many(ranks), sequence=sequence))

    show_with(1, 72)
    show_with(2, 72)
    show_with(3, 72)
    assert drawn() == "1"
    page.clock.run_for(490)
    assert drawn() == "1"
    page.clock.run_for(20)
    assert drawn() == "3"
    show_with(4, 72)
    show_with(5, 80)
    assert drawn() == "5", "another number of ranks is shown at once"
    page.clock.run_for(1000)
    assert drawn() == "5", "what was overtaken is not drawn any more"
    show_with(6, 80)
    assert drawn() == "6", "after a pause the next one comes at once"
    show_with(7, 64)
    show_with(8, 64)
    assert drawn() == "8", "few ranks are drawn each time"


def test_the_filter_shows_the_ranks_that_are_written_or_in_a_state(open_view: OpenView) -> None:
    page = open_view(many(512), width=1000, height=900)
    box = page.get_by_label("Show ranks")
    box.fill("0, 5-9,511")
    ranks = page.evaluate("[...document.querySelectorAll('[data-rank]')].map(n => +n.dataset.rank)")
    assert ranks == [0, 5, 6, 7, 8, 9, 511]
    assert text_of(page, ".jd-filter output") == "7 of 512 ranks"
    assert page.locator(".jd-dense").count() == 0, "what is left has room for words"
    box.fill("hung?")
    states = page.evaluate(
        "[...document.querySelectorAll('[data-rank]')].map(n => n.dataset.state)"
    )
    assert set(states) == {"hung"}
    assert text_of(page, ".jd-filter output") == f"{len(states)} of 512 ranks"
    box.press("Escape")
    assert page.locator("[data-rank]").count() == 512


def test_a_filter_that_makes_no_sense_says_what_is_accepted(open_view: OpenView) -> None:
    page = open_view(many(512), width=1000, height=900)
    box = page.get_by_label("Show ranks")
    box.fill("first ones")
    assert page.locator("[data-rank]").count() == 512
    assert box.get_attribute("aria-invalid") == "true"
    said = text_of(page, ".jd-filter output")
    assert_tells(said, "0,5-9", "state: starting, idle, busy")


def test_utilisation_and_memory_are_as_high_and_long_as_they_are(open_view: OpenView) -> None:
    page = open_view()
    gpu = a_gpu(
        0, utilisation_percent=50.0, memory_used_bytes=25 * 10**9, memory_total_bytes=10**11
    )
    show(page, a_cluster(a_host("node-a", [an_engine(0, 0, "busy", device=0)], gpus=(gpu,))))
    sizes = page.evaluate(
        """() => { const size = (of, name) => +document.querySelector('[data-rank="0"] ' + of).getAttribute(name);
          return [size('.jd-use', 'height') / size('.jd-box', 'height'),
                  size('.jd-fill', 'width') / size('.jd-track', 'width')]; }"""
    )
    assert sizes == pytest.approx([0.5, 0.25], abs=0.02)
    assert text_content(page, '[data-rank="0"] .jd-used') == "50%"


def test_a_host_without_numbers_or_ranks_is_drawn_all_the_same(open_view: OpenView) -> None:
    page = open_view()
    bare = HostView(name="node-a")
    show(page, Topology(cluster="demo", hosts=(bare, replace(bare, name="node-b", state="lost"))))
    assert page.locator(".jd-host-facts").all_text_contents() == ["host starting", "host lost"]


HISTORY = """async ({topologies, step_ms}) => {
  const { createHistory, curve } = await import('/history.js');
  window.history_ = createHistory();
  topologies.forEach((each, i) => history_.take(each, i * step_ms));
  const place = document.body.appendChild(document.createElement('div'));
  const drawn = curve(place, history_.samples(0, 'gpu_memory'), 'GPU memory');
  return { memory: [...history_.samples(0, 'gpu_memory').values], caption: drawn.node.innerText,
    span_s: history_.samples(0, 'rss').span_s, limit: history_.samples(0, 'gpu_memory').limit,
    all: [...history_.samples(null, 'utilisation').values], line: place.querySelector('.jd-curve-line').getAttribute('d') };
}"""


def busier(gigabytes: int) -> Any:
    gpu = a_gpu(0, utilisation_percent=float(gigabytes), memory_used_bytes=gigabytes * 10**9)
    host = a_host("node-a", [an_engine(0, 0, "busy", device=0)], gpus=(gpu,))
    return msgspec.to_builtins(a_cluster(host))


def test_the_history_keeps_one_sample_a_second_and_says_what_its_curve_shows(
    open_view: OpenView,
) -> None:
    page = open_view()
    seen = page.evaluate(HISTORY, {"topologies": [busier(n) for n in range(1, 41)], "step_ms": 250})
    assert seen["memory"] == [n * 1e9 for n in range(1, 41, 4)]
    assert seen["all"] == list(range(1, 41, 4))
    assert seen["span_s"] == 9
    assert seen["limit"] == 141e9
    assert_tells(seen["caption"], "GPU memory: 34 GiB now", "954 MiB to 34 GiB", "9.0 s")
    assert seen["line"].count("L") == 9


def test_the_history_forgets_what_is_older_than_120_samples(open_view: OpenView) -> None:
    page = open_view()
    topologies = [busier(n) for n in range(1, 131)]
    seen = page.evaluate(HISTORY, {"topologies": topologies, "step_ms": 1000})
    assert len(seen["memory"]) == 120
    assert (seen["memory"][0], seen["memory"][-1]) == (11e9, 130e9)
