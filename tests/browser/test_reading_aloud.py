"""The picture without a mouse and without eyes: keys reach all of it, and its words come in a sensible order."""

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from .topologies import large_with_trouble, local, show, two_hosts

pytestmark = pytest.mark.browser

OpenView = Callable[..., Any]
# What has the focus, and whether that can be seen: by an outline, or by the ring of a seat.
FOCUSED = """() => {
  const node = document.activeElement;
  const ring = node.querySelector('.jd-ring');
  const { outlineStyle, outlineWidth } = getComputedStyle(node);
  const isSeen = ring ? getComputedStyle(ring).stroke !== 'none' : outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2;
  return [node.getAttribute('aria-label') ?? node.labels?.[0]?.textContent ?? node.textContent, isSeen];
}"""
STATES_IN_WORDS = ("in collective", "hung?", "idle", "busy", "lost", "starting")


def focused(page: Any) -> str:
    """Name what has the focus, which must be seen."""
    name, is_seen = page.evaluate(FOCUSED)
    assert is_seen, f"the focus is on {name}, and nothing shows it"
    return str(name)


def press(page: Any, *keys: str) -> str:
    for key in keys:
        page.keyboard.press(key)
    return focused(page)


def test_a_summary_is_read_first_then_what_can_be_done_then_each_rank_with_its_state(
    open_view: OpenView,
) -> None:
    tree = open_view(two_hosts()).locator(".jd-topology").aria_snapshot()
    order = [
        tree.index(words)
        for words in (
            "cluster topology",
            "demo",
            "generation 2",
            "1 hung?, 1 idle, 1 lost, 1 starting, 4 working. ranks 0-3 wait in all_reduce #17 (In[3]:7); rank 5",
            'button "Interrupt"',
            "for 12 s",
            "listbox",
            "rank 0 on node-a: in collective",
            "rank 7 on node-b: starting",
        )
    ]
    assert order == sorted(order), tree
    options = re.findall(r'option "(.*)"', tree)
    assert len(options) == 8
    assert all(any(f": {state}" in option for state in STATES_IN_WORDS) for option in options)


def test_a_hang_is_read_out_once_and_not_again_each_second(open_view: OpenView) -> None:
    page = open_view(local(("idle",) * 4), has_test_clock=True)
    live = page.locator(".jd-topology").locator("[aria-live], [role=status]:visible")
    assert live.count() == 1
    page.evaluate(
        """() => { window.told = [];
          const node = document.querySelector('.jd-topology [aria-live]');
          new MutationObserver(() => told.push(node.textContent)).observe(node,
            { childList: true, characterData: true, subtree: true }); }"""
    )
    for seconds in (12, 13, 75):
        note = f"ranks 0-2 wait in barrier #1 for {seconds} s; rank 3 has not called it yet"
        hangs = local(("hung", "hung", "hung", "busy"))
        show(page, msgspec.structs.replace(hangs, note=note))
        page.clock.run_for(2500)
    assert page.evaluate("told") == [
        "1 working, 3 hung?. ranks 0-2 wait in barrier #1; rank 3 has not called it yet"
    ]


def test_keys_reach_and_open_a_rank_and_what_it_has_to_say(open_view: OpenView) -> None:
    page = open_view(two_hosts())
    assert [press(page, "Tab") for _ in range(5)] == [
        "Interrupt", "Stacks", "Explain", "Heal", "Stop demo…",
    ]  # fmt: skip
    assert press(page, "Tab").startswith("rank 0 on node-a")
    assert press(page, "ArrowRight", "ArrowRight").startswith("rank 2 on node-a: hung?")
    assert "waits in all_reduce" in page.inner_text(".jd-detail")
    page.keyboard.press("Enter")
    panel = page.get_by_role("region", name="rank 2")
    assert panel.get_by_role("heading", name="Rank 2").evaluate(
        "node => node === document.activeElement"
    )
    names = [press(page, "Tab") for _ in range(8)]
    assert names == [
        "Refresh", "Interrupt rank", "Replace rank…", "Close",
        "stack", "last lines", "collectives", "variables",
    ]  # fmt: skip
    assert press(page, "Escape").startswith("rank 2")
    assert panel.count() == 0


def test_keys_pick_ranks_of_a_large_cluster_and_open_a_group(open_view: OpenView) -> None:
    page = open_view(large_with_trouble(1024), width=720)
    page.get_by_label("Show ranks").focus()
    assert focused(page) == "Show ranks"
    group = press(page, "Tab")
    assert "ranks 37 lost" in group
    assert "ranks 80-95 hung?" in group
    assert "Enter hides each" in press(page, "Enter")
    assert press(page, "ArrowRight").startswith("rank 0 on node-000: busy")
    page.get_by_label("Show ranks").focus()
    page.keyboard.type("lost")
    assert (
        page.get_by_role("status", name="", include_hidden=False)
        .get_by_text("1 of 1024 ranks")
        .count()
        == 1
    )
    assert press(page, "Tab").startswith("rank 37 on node-004: lost, killed by signal 9")


@pytest.mark.parametrize(("locale", "time"), [("en-US", "12:10:00 AM"), ("de-DE", "00:10:00")])
def test_times_of_day_are_written_as_the_reader_does(
    open_view: OpenView, locale: str, time: str
) -> None:
    page = open_view(local(), has_test_clock=True, locale=locale, timezone_id="UTC")
    page.click('[data-rank="0"]')
    asked = page.evaluate("model.sent.at(-1)")
    answer = {"kind": "reply", "id": asked["id"], "ok": True, "text": "", "sections": []}
    page.evaluate("answer => model.emit('msg:custom', answer)", answer)
    shown = page.inner_text(".jd-panel-when").replace("\u202f", " ")
    assert shown == f"as of {time}"
