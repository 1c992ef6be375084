"""The panel "Clusters" in a real JupyterLab, with real clusters and kernels that are busy or dead."""

import json
import os
import re
import signal
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.matrix import only
from tests.patience import Stopwatch

from .lab import LabNotebook, a_notebook
from .panel import (
    HIDE_PANEL,
    OPEN_PANEL,
    Panel,
    find_violations,
    is_enabled,
    wait_until_the_layout_is_kept,
)
from .server import JupyterServer

pytestmark = pytest.mark.browser

OpenNotebook = Callable[..., LabNotebook]
LOAD, START = "%load_ext jupyter_dist", "%dist_start -n 4 --name demo"
# Of long output the first lines are not shown any more: these stay for more than a minute.
TICK = """%%spmd
import time
print("begun by", rank, flush=True)
for tick in range(600):
    print("tick", tick, flush=True)
    time.sleep(0.5)"""
PIDS = """%%spmd
import os
print(f"pid={os.getpid()}")"""
TELL_SIGNALS = """%%spmd
import time
print("at work", flush=True)
try:
    while True:
        time.sleep(0.01)
except KeyboardInterrupt:
    print(f"signal at {time.time():.4f}")"""
CLICKS = 5
REQUESTS = "**/jupyter-dist/clusters/demo/requests*"
HANG = """%%spmd
if rank != 2:
    comm.barrier()"""
# Notes each text and each end of the bar that the start form shows.
FOLLOW_START = """() => {
  window.shown = [];
  const form = document.querySelector('.jdp-start');
  const [line, bar] = [form.querySelector('.jdp-progress'), form.querySelector('progress')];
  const note = () => window.shown.push([line.textContent, bar.hidden ? 0 : bar.max]);
  new MutationObserver(note).observe(form,
    { subtree: true, childList: true, characterData: true, attributes: true });
}"""
# Breaks the answer to the next question for the list in the middle, once `window.cut` is set.
CUT_AN_ANSWER = """
const ask = window.fetch;
window.fetch = (request, ...options) => {
  if (!window.cut || !request.url.includes('/jupyter-dist/clusters')) return ask(request, ...options);
  window.cut = false;
  const body = new ReadableStream({ start: stream => stream.error(new TypeError('network error')) });
  return Promise.resolve(new Response(body));
};"""
FOLLOW_PROBLEM = """() => {
  window.told = [];
  const node = document.querySelector('.jdp-problem');
  new MutationObserver(() => window.told.push(node.textContent)).observe(
    node, { childList: true, characterData: true, subtree: true });
}"""


@pytest.fixture
def open_panel(
    panel_lab: JupyterServer, open_notebook: OpenNotebook
) -> Callable[..., tuple[LabNotebook, Panel]]:
    """Open a notebook with these cells, and the panel beside it; a cluster is started first."""

    def open_both(
        name: str, *sources: str, ran: int = 2, width: int = 1400
    ) -> tuple[LabNotebook, Panel]:
        notebook = open_notebook(a_notebook(*sources), name, width=width)
        panel = Panel(notebook.page).open()
        for index in range(ran if sources[0] == LOAD else 0):
            notebook.run(index)
        return notebook, panel

    return open_both


OpenPanel = Callable[..., tuple[LabNotebook, Panel]]


def test_a_cluster_is_started_by_the_form_and_attached_to_the_notebook(
    open_panel: OpenPanel, pictures: Path
) -> None:
    notebook, panel = open_panel("started_by_form", "x = 1")
    page = panel.page
    panel.wait_for_text(".jdp-empty", "No cluster")
    assert page.locator(".jdp-status-button").is_hidden()
    panel.node.get_by_role("button", name="Start…").click()
    panel.node.get_by_label("Ranks", exact=True).fill("2")
    panel.node.get_by_label("Name (if you like)").fill("by-form")
    page.evaluate(FOLLOW_START)
    panel.node.get_by_role("button", name="Start", exact=True).click()
    panel.node.locator('[data-cluster="by-form"]').wait_for()
    page.wait_for_selector('.jdp-panel .jd-topology [data-rank="1"][data-state="idle"]')
    page.screenshot(path=pictures / "panel_started.png")
    panel.node.locator(".jdp-start").wait_for(state="hidden")
    shown = page.evaluate("window.shown")
    assert any(end == 2 and "asked" not in text for text, end in shown), shown
    assert page.locator(".jdp-status-button").inner_text().strip() == "2 ranks"
    panel.node.get_by_role("button", name="Attach notebook").click()
    cells = page.evaluate(
        """() => window.jupyterapp.shell.currentWidget.content.widgets.map(
          cell => [cell.model.sharedModel.getSource(), cell.model.executionCount ?? null])"""
    )
    assert cells == [["x = 1", None], ["%load_ext jupyter_dist\n%dist_attach by-form", None]]
    assert "by-form" in notebook.run(1)


@pytest.mark.slow
def test_a_start_that_fails_says_why_in_full(open_panel: OpenPanel) -> None:
    _, panel = open_panel("start_fails", "x = 1")
    panel.node.get_by_role("button", name="Start…").click()
    panel.node.get_by_label("hosts", exact=True).check()
    panel.node.get_by_role("button", name="Start", exact=True).click()
    panel.wait_for_text(".jdp-failure", "Name at least one host")
    panel.node.get_by_label("Hosts", exact=False).last.fill("here:two")
    panel.node.get_by_role("button", name="Start", exact=True).click()
    panel.wait_for_text(".jdp-failure", "here:two")
    assert panel.node.get_by_role("button", name="Start", exact=True).is_enabled()


def test_ranks_output_and_log_are_live_while_the_kernel_is_busy_and_an_interrupt_ends_the_cell(
    open_panel: OpenPanel, pictures: Path
) -> None:
    notebook, panel = open_panel("busy_kernel", LOAD, START, TICK)
    panel.wait_for_states("idle")
    assert not is_enabled(panel.page, "jupyter-dist:heal")
    notebook.start(2)
    panel.wait_for_states("busy")
    panel.wait_for_text(".jdp-output", "tick 3")
    panel.wait_for_text(".jdp-output-section h3", "(running)")
    panel.node.locator(".jdp-log-section summary").click()
    panel.node.get_by_label("rank", exact=True).select_option("3")
    panel.wait_for_text(".jdp-log pre", "begun by 3")
    panel.node.locator(".jdp-history-section summary").click()
    panel.wait_for_text(".jdp-history", "in the last")
    panel.page.screenshot(path=pictures / "panel_busy.png")
    assert "begun by 2" not in panel.text(".jdp-log pre")
    panel.node.locator(".jd-interrupt").click()
    notebook.wait()
    panel.wait_for_states("idle")
    assert "KeyboardInterrupt" in notebook.text(2)


@pytest.mark.slow
def test_a_click_in_the_panel_is_a_signal_at_every_rank_soon(
    open_panel: OpenPanel, pictures: Path
) -> None:
    notebook, panel = open_panel("panel_signals", LOAD, START, *[TELL_SIGNALS] * CLICKS)
    times_s, watch = [], Stopwatch()
    for index in range(2, 2 + CLICKS):
        notebook.start(index)
        panel.wait_for_states("busy")
        notebook.wait_for_text(index, "at work")
        clicked_s = panel.page.evaluate(
            """() => { const at = Date.now() / 1000;
              document.querySelector('.jdp-panel .jd-interrupt').click(); return at; }"""
        )
        notebook.wait()
        arrived_s = [
            float(each) for each in re.findall(r"signal at ([\d.]+)", notebook.text(index))
        ]
        assert arrived_s
        times_s.append(max(arrived_s) - clicked_s)
    figures = {"click_to_last_signal_s": {"median": statistics.median(times_s), "all": times_s}}
    (pictures / "panel_click_to_signal.json").write_text(json.dumps(figures), encoding="utf-8")
    print(f"click in the panel to the last of 4 ranks: {statistics.median(times_s) * 1e3:.0f} ms")
    # 0.3 s is the aim on a quiet machine; a request that waits for the kernel takes for ever.
    watch.assert_less(2, f"the median of {times_s}", took_s=statistics.median(times_s))


def test_the_panel_goes_on_when_the_kernel_is_killed(
    open_panel: OpenPanel, panel_lab: JupyterServer, pictures: Path
) -> None:
    notebook, panel = open_panel("killed_kernel", LOAD, START, TICK)
    notebook.start(2)
    panel.wait_for_text(".jdp-output", "tick 2")
    (kernel,) = panel_lab.kernel_pids()
    os.kill(kernel, signal.SIGKILL)
    panel.page.get_by_role("dialog").get_by_text("appears to have died").wait_for()
    panel.wait_for_news()
    panel.wait_for_states("busy")
    panel.page.screenshot(path=pictures / "panel_dead_kernel.png")
    panel.page.get_by_role("dialog").get_by_role("button", name="Ok").click()
    panel.node.locator(".jd-interrupt").click()
    panel.wait_for_states("idle")


@pytest.mark.slow
def test_after_a_reload_in_mid_cell_the_panel_shows_what_the_cell_has_said(
    open_panel: OpenPanel, pictures: Path
) -> None:
    notebook, panel = open_panel("reloaded", LOAD, START, TICK)
    notebook.start(2)
    panel.wait_for_text(".jdp-output", "tick 2")
    wait_until_the_layout_is_kept(panel.page)
    panel.page.reload()
    panel.node.wait_for(state="visible")
    panel.node.locator('[data-cluster="demo"][aria-pressed="true"]').wait_for()
    panel.wait_for_text(".jdp-output", "begun by")
    panel.wait_for_states("busy")
    panel.page.screenshot(path=pictures / "panel_reloaded.png")


@pytest.mark.slow
def test_a_hang_and_a_loss_are_told_in_list_status_bar_and_commands(
    open_panel: OpenPanel, pictures: Path
) -> None:
    notebook, panel = open_panel("hang_and_loss", LOAD, START, HANG, PIDS)
    pids = re.findall(r"pid=(\d+)", notebook.run(3))
    notebook.start(2)
    page = panel.page
    page.locator('.jdp-panel [data-mark="hung"]').wait_for()
    assert "hung?" in page.locator(".jdp-status-button").inner_text()
    panel.wait_for_text(".jd-note", "barrier")
    page.screenshot(path=pictures / "panel_hang.png")
    panel.command("jupyter-dist:stacks")
    panel.wait_for_text(".jd-topology", "comm.barrier()")
    panel.command("jupyter-dist:interrupt")
    notebook.wait()
    panel.wait_for_states("idle")
    os.kill(int(pids[3]), signal.SIGKILL)
    page.locator('.jdp-panel [data-mark="lost"]').wait_for()
    assert "1 lost" in page.locator(".jdp-status-button").inner_text()
    panel.command("jupyter-dist:heal")
    panel.wait_for_states("idle")
    page.locator('.jdp-panel [data-mark="lost"]').wait_for(state="detached")


@pytest.mark.slow
def test_the_palette_stops_the_cluster_after_a_question_and_says_what_keeps_it(
    open_panel: OpenPanel,
) -> None:
    notebook, panel = open_panel("palette", LOAD, START)
    panel.wait_for_states("idle")
    page = panel.page
    notebook.command("apputils:activate-command-palette")
    page.keyboard.type("Stop demo")
    page.locator(".lm-CommandPalette-item[data-command='jupyter-dist:stop']").wait_for()
    page.keyboard.press("Enter")
    page.route(REQUESTS, lambda route: route.abort())
    page.get_by_role("dialog").get_by_role("button", name="Stop demo").click()
    page.get_by_role("alert").filter(has_text="demo was not stopped").wait_for()
    page.unroute(REQUESTS)
    page.evaluate("() => void window.jupyterapp.commands.execute('jupyter-dist:stop')")
    page.get_by_role("dialog").get_by_role("button", name="Stop demo").click()
    panel.node.locator('[data-cluster="demo"]').wait_for(state="detached")
    assert "demo is not" in panel.text(".jdp-gone")
    page.locator(".jdp-status-button").wait_for(state="hidden")
    assert not is_enabled(page, "jupyter-dist:stop")


@pytest.mark.slow
def test_another_cluster_of_the_same_name_is_shown_without_what_the_first_has_said(
    open_panel: OpenPanel,
) -> None:
    again = f"%dist_stop\n{START}"  # sooner than the list is looked at
    notebook, panel = open_panel("same_name", LOAD, START, PIDS, "%dist_stop", START, again, ran=3)
    panel.wait_for_text(".jdp-output", "pid=")
    notebook.run(3)
    panel.node.locator('.jd-topology[data-cluster-state="gone"]').wait_for()
    panel.wait_for_text(".jdp-output", "pid=")
    panel.wait_for_text(".jdp-gone", "demo is not")
    assert not is_enabled(panel.page, "jupyter-dist:stacks")
    for start in (4, 5):
        assert "ready" in notebook.run(start)
        panel.wait_for_text(".jdp-output", "No cell")
        panel.node.locator('.jd-topology[data-cluster-state="ready"]').wait_for()
        panel.wait_for_states("idle")
        assert is_enabled(panel.page, "jupyter-dist:stacks")
        notebook.run(2)
        panel.wait_for_text(".jdp-output", "pid=")


@pytest.mark.slow
def test_a_cluster_lives_while_somebody_looks_at_it_in_the_panel_and_ends_when_nobody_does(
    open_panel: OpenPanel,
) -> None:
    start = "%dist_start -n 1 --name demo --keep 5s"
    notebook, panel = open_panel("looked_at", LOAD, start, ran=1)
    panel.page.evaluate(HIDE_PANEL)
    notebook.run(1)
    # An order shows the panel first, and the picture that it is given in.
    panel.command("jupyter-dist:stacks")
    panel.wait_for_text(".jd-request", "delivered")
    notebook.shut_kernel_down()
    # They come at most four times a second: it would have ended before the last.
    panel.wait_for_news(45)
    panel.page.evaluate(HIDE_PANEL)
    panel.page.locator(".jdp-status-button").wait_for(state="hidden")


@pytest.mark.slow
def test_keys_alone_start_a_cluster_and_read_a_rank(open_panel: OpenPanel) -> None:
    _, panel = open_panel("keys", "x = 1")
    page = panel.page
    panel.wait_for_text(".jdp-empty", "No cluster")

    def tab_to(selector: str) -> None:
        for _ in range(40):
            if page.evaluate("s => document.activeElement.matches(`.jdp-panel ${s}`)", selector):
                return
            page.keyboard.press("Tab")
        raise AssertionError(f"Tab never comes to {selector}")

    tab_to(".jdp-open-form")
    page.keyboard.press("Enter")
    tab_to("[type=radio]")
    tab_to("[type=number]")
    page.keyboard.press("Control+a")
    page.keyboard.type("4")
    page.keyboard.press("Enter")
    panel.wait_for_states("idle")
    page.evaluate(OPEN_PANEL)
    tab_to("[data-rank='0']")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.rank") == "1"
    page.keyboard.press("Enter")
    panel.wait_for_text(".jd-rank-panel", "rank 1")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.dataset.rank") == "1"
    tab_to(".jdp-log-section summary")
    page.keyboard.press("Enter")
    tab_to(".jdp-log select")


@pytest.mark.slow
@pytest.mark.parametrize("theme", only(["light"], ["light", "dark"], at_night=["dark"]))
def test_axe_finds_nothing_and_the_panel_wears_the_theme(
    open_panel: OpenPanel, pictures: Path, theme: str
) -> None:
    notebook, panel = open_panel(f"themes_{theme}", LOAD, START, HANG, width=1100)
    notebook.start(2)
    notebook.change_theme(f"JupyterLab {theme.capitalize()}")
    for section in ("log", "history"):
        panel.node.locator(f".jdp-{section}-section summary").click()
    panel.node.locator('[data-mark="hung"]').wait_for()
    panel.node.get_by_role("button", name="Start…").click()
    panel.node.locator("[data-rank='0']").focus()
    panel.page.keyboard.press("Enter")
    panel.wait_for_text(".jd-rank-panel", "barrier")
    ground = panel.node.evaluate("node => getComputedStyle(node).backgroundColor")
    is_light = int(re.findall(r"\d+", ground)[0]) > 128
    assert is_light == (theme == "light"), ground
    panel.page.screenshot(path=pictures / f"panel_{theme}.png")
    assert find_violations(panel.page) == []
    panel.command("jupyter-dist:interrupt")
    notebook.wait()


@pytest.mark.slow
def test_without_the_server_extension_the_panel_says_what_to_install(
    panel_lab: JupyterServer, lab_browser: Any
) -> None:
    page = lab_browser.new_page()
    page.route_web_socket("**/jupyter-dist/feed*", lambda socket: socket.close())
    page.route("**/jupyter-dist/clusters*", lambda route: route.fulfill(status=404, body="{}"))
    page.goto(panel_lab.address(""))
    panel = Panel(page).open()
    panel.wait_for_text(".jdp-problem", "pip install jupyter-dist")
    panel.wait_for_text(".jdp-problem", "jupyter server extension enable jupyter_dist.server")
    assert not is_enabled(page, "jupyter-dist:start")
    page.close()


@pytest.mark.slow
def test_a_broken_feed_is_said_and_connects_again_by_itself(
    panel_lab: JupyterServer, lab_browser: Any
) -> None:
    page = lab_browser.new_page()
    page.add_init_script(CUT_AN_ANSWER)
    sockets: list[Any] = []

    def pass_on(socket: Any) -> None:
        sockets.append(socket)
        socket.connect_to_server()

    page.route_web_socket("**/jupyter-dist/feed*", pass_on)
    page.goto(panel_lab.address(""))
    panel = Panel(page).open()
    panel.wait_for_text(".jdp-empty", "No cluster")
    page.evaluate(FOLLOW_PROBLEM)
    sockets[0].close()
    page.wait_for_function("() => window.told.length >= 2")
    assert "live connection" in page.evaluate("window.told[0]")
    assert page.evaluate("window.told.at(-1)") == ""
    assert len(sockets) == 2
    page.evaluate("() => { window.told = []; window.cut = true; }")
    sockets[1].close()
    page.wait_for_function("() => window.told.length >= 2")
    assert "not answer" in page.evaluate("window.told[0]")
    assert page.evaluate("window.told.at(-1)") == ""
    assert len(sockets) == 3
    page.close()


@pytest.mark.slow
def test_settings_change_the_form_the_output_and_the_status_bar(
    panel_lab: JupyterServer, open_panel: OpenPanel
) -> None:
    _, panel = open_panel("settings", LOAD, "%dist_start -n 1 --name demo")
    page = panel.page
    page.locator(".jdp-status-button").wait_for()
    save = """text => window.jupyterapp.serviceManager.settings.save(
      '@jupyter-dist/labextension:plugin', text)"""
    wished = {"showStatusItem": False, "defaultHosts": "nodeA:2", "outputLines": 7}
    page.evaluate(save, json.dumps(wished))
    try:
        page.goto(panel_lab.address("settings.ipynb"))
        panel.open()
        panel.choose("demo")
        panel.node.locator('[data-cluster="demo"][aria-pressed="true"]').wait_for()
        panel.node.get_by_role("button", name="Start…").click()
        assert panel.node.locator(".jdp-start [type=text]").first.input_value() == "nodeA:2"
        assert panel.node.get_by_label("hosts", exact=True).is_checked()
        lines = "node => getComputedStyle(node).getPropertyValue('--jdp-lines')"
        assert panel.node.locator(".jdp-output").evaluate(lines) == "7"
        assert page.locator(".jdp-status-button").is_hidden()
    finally:
        page.evaluate(save, "{}")
