"""Take the pictures of README.md and docs again: `python tests/browser/take_pictures.py`.

With names it takes these only. Clusters, JupyterLab and Chromium are real; the two HGX hosts are
the sample in tests/data; three hosts need root and the programs of `make host-tools`. `demo` is the
moving picture, which Pillow writes.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from playwright.sync_api import sync_playwright  # noqa: E402

from tests.browser.conftest import VIEW_ORIGIN, opening_notebooks, serve_view  # noqa: E402
from tests.browser.film import Film  # noqa: E402
from tests.browser.lab import WIDGET, LabNotebook, a_notebook, wait_until_all_are  # noqa: E402
from tests.browser.lab_debugger import CELL, LabDebugger  # noqa: E402
from tests.browser.panel import Panel  # noqa: E402
from tests.browser.server import JupyterServer  # noqa: E402
from tests.hosts.lab import HostsLab, why_not  # noqa: E402
from tests.hosts.open_lab import write_spec  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
SAMPLE = ROOT / "tests" / "data" / "topology_2x8_hgx.json"
MOST_BYTES = 200_000
MOST_BYTES_OF_A_FILM = 1_000_000
GLANCE_MS = 600
READING_MS = 2000
NOTEBOOK = ".jp-NotebookPanel-notebook"
DARK = "JupyterLab Dark"
HOSTS = ("nodeA", "nodeB", "nodeC")
LOAD = "%load_ext jupyter_dist"
START = "%dist_start -n 4"
# Until it is interrupted, so that there is time for the picture.
SUMS = """%%spmd
import numpy as np
for step in range(100_000 if rank < 2 else 100):
    gradient = np.random.rand(200, 200) @ np.random.rand(200, 200)
total = comm.all_reduce(gradient)"""
EVER = """%%spmd
import numpy as np
weights = np.ones(1 << 24)
while True:
    weights = comm.all_reduce(weights) / comm.size"""
HANG = """%%spmd
import numpy as np
loss = np.full(3, 0.5 + rank)
if rank != 2:  # a bug: rank 2 never calls it
    loss = comm.all_reduce(loss)
print(loss)"""
LOSS = """%%spmd
import os, signal
if rank == 2:
    os.kill(os.getpid(), signal.SIGKILL)
comm.barrier()"""
FIRST = """%%spmd
import numpy as np
total = comm.all_reduce(np.full(3, rank))
print("rank", rank, "has", total)"""
AFTER = """%%spmd
print("total:", globals().get("total", "none, this rank is new"))"""
FIGURES = """%%spmd --figures row
import matplotlib.pyplot as plt, numpy as np
t = np.linspace(0, 6, 200)
plt.figure(figsize=(1.65, 1.3))
plt.plot(t, np.sin((rank + 1) * t))
plt.show()
print("peak", np.sin((rank + 1) * t).max().round(3))"""
TICK = """%%spmd
import time
for step in range(6000):
    print("step", step, flush=True)
    time.sleep(0.1)"""
ARE_INSIDE = """([view, count]) => document.querySelectorAll(
  view + ' [data-rank][data-state="collective"]').length >= count"""


class Studio:
    """A browser and a JupyterLab, and where the pictures go."""

    def __init__(self, chromium: Any, server: JupyterServer) -> None:
        self.chromium = chromium
        self.server = server

    @contextlib.contextmanager
    def notebook(
        self, name: str, *sources: str, theme: str = "", **size: int
    ) -> Iterator[LabNotebook]:
        """Show a notebook alone, its first two cells done: a cluster that is idle."""
        with opening_notebooks(self.server, self.chromium) as open_notebook:
            opened = open_notebook(a_notebook(LOAD, *sources), name, **size)
            opened.command("application:toggle-left-area")
            if theme:
                opened.change_theme(theme)
            opened.run(0)
            opened.run(1)
            yield opened
            if theme:
                opened.change_theme("JupyterLab Light")

    def keep(self, page: Any, name: str, part: str = NOTEBOOK) -> None:
        """Keep a picture of a part of the page (none: all of it), when it has been drawn."""
        page.mouse.move(1, 1)
        page.evaluate("() => new Promise(done => requestAnimationFrame(() => done(0)))")
        path = PICTURES / f"{name}.png"
        shown = page.locator(part).first if part else page
        shown.screenshot(path=path, animations="disabled")
        taken = path.stat().st_size
        assert taken < MOST_BYTES, f"{path} has {taken} bytes"
        sys.stdout.write(f"{path.relative_to(ROOT)}: {taken / 1000:.0f} KB\n")


def interrupt(notebook: LabNotebook) -> None:
    """End the cell by the button."""
    notebook.page.click(f"{WIDGET} .jd-interrupt")
    notebook.wait()


def local_ranks(studio: Studio, name: str = "local_ranks_light", theme: str = "") -> None:
    """Four ranks on this machine; some compute, some wait in a collective."""
    with studio.notebook(name, START, SUMS, theme=theme, width=860, height=650) as notebook:
        wait_until_all_are("idle", notebook.page)
        notebook.start(2)
        notebook.page.wait_for_function(ARE_INSIDE, arg=[WIDGET, 2])
        # The host is seen once a second: its load shall be that of this cell, too.
        notebook.page.locator(WIDGET).get_by_text(re.compile("CPU [1-9][0-9]*%")).wait_for()
        studio.keep(notebook.page, name)
        interrupt(notebook)


def local_ranks_dark(studio: Studio) -> None:
    """The same in a dark theme."""
    local_ranks(studio, "local_ranks_dark", DARK)


def hgx(studio: Studio, scheme: str = "light") -> None:
    """Two hosts with eight GPUs each, joined by NVLink: the sample."""
    context = studio.chromium.new_context(
        viewport={"width": 960, "height": 700}, color_scheme=scheme
    )
    context.route("**/*", serve_view)
    page = context.new_page()
    page.goto(f"{VIEW_ORIGIN}/")
    page.wait_for_function("window.isReady")
    page.evaluate("state => model.show(state)", json.loads(SAMPLE.read_text(encoding="utf-8")))
    page.locator('[data-rank="15"]').wait_for()
    studio.keep(page, f"two_hgx_hosts_{scheme}", ".jd-topology")
    context.close()


def hgx_dark(studio: Studio) -> None:
    """The same in the dark."""
    hgx(studio, "dark")


def hang(studio: Studio) -> None:
    """Three ranks wait for one that never comes: the sentence says so."""
    with studio.notebook("hang", START, HANG, width=860, height=770) as notebook:
        wait_until_all_are("idle", notebook.page)
        notebook.start(2)
        note = notebook.page.locator(f"{WIDGET} .jd-note")
        note.get_by_text("rank 2").wait_for()
        notebook.page.locator(f'{WIDGET} [data-state="hung"]').first.wait_for()
        studio.keep(notebook.page, "hang")
        interrupt(notebook)


def lost_rank(studio: Studio) -> None:
    """A rank was killed; the others keep their state."""
    with studio.notebook("lost_rank", START, LOSS, width=860, height=960) as notebook:
        wait_until_all_are("idle", notebook.page)
        notebook.run(2)
        notebook.page.locator(f'{WIDGET} [data-rank="2"][data-state="lost"]').wait_for()
        for rank in (0, 1, 3):
            notebook.page.locator(f'{WIDGET} [data-rank="{rank}"][data-state="idle"]').wait_for()
        studio.keep(notebook.page, "lost_rank")


def figures_row(studio: Studio) -> None:
    """Figures of four ranks, side by side."""
    with studio.notebook("figures_row", START, FIGURES, width=1000, height=700) as notebook:
        notebook.run(2)
        studio.keep(notebook.page, "figures_row", ".jp-Cell:nth-child(3)")


def three_hosts(studio: Studio) -> None:
    """Six ranks on three hosts that are reached by ssh."""
    if reason := why_not():
        sys.stdout.write(f"three_hosts is left out: {reason}\n")
        return
    with contextlib.ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="hosts-lab-")))
        hosts = ends.enter_context(HostsLab(HOSTS, folder))
        shutil.copy(write_spec(hosts), studio.server.notebooks / "cluster.toml")
        start = "%dist_start --spec cluster.toml"
        notebook = ends.enter_context(
            studio.notebook("three_hosts", start, EVER, width=960, height=680)
        )
        wait_until_all_are("idle", notebook.page, 6)
        notebook.start(2)
        notebook.page.wait_for_function(ARE_INSIDE, arg=[WIDGET, 6])
        studio.keep(notebook.page, "three_hosts")
        interrupt(notebook)


def panel_dead_kernel(studio: Studio) -> None:
    """The kernel is gone; the panel shows the cluster as live as before."""
    if not studio.server.has_panel:
        sys.stdout.write("panel_dead_kernel is left out: the panel is not built\n")
        return
    with opening_notebooks(studio.server, studio.chromium) as open_notebook:
        cells = a_notebook(LOAD, "%dist_start -n 4 --name demo", TICK)
        notebook = open_notebook(cells, "panel", width=1240, height=860)
        panel = Panel(notebook.page).open()
        notebook.run(0)
        notebook.run(1)
        notebook.start(2)
        panel.wait_for_states("busy")
        for pid in studio.server.kernel_pids():
            os.kill(pid, signal.SIGKILL)
        notebook.page.locator(".jp-Dialog").wait_for()
        panel.wait_for_news()
        studio.keep(notebook.page, "panel_dead_kernel", "")


def demo(studio: Studio) -> None:
    """The moving picture of README.md: a start, a cell, a hang that is named, a loss, a heal."""
    with opening_notebooks(studio.server, studio.chromium) as open_notebook:
        cells = a_notebook(f"{LOAD}\n{START}", "")
        notebook = open_notebook(cells, "demo", width=800, height=880)
        notebook.command("application:toggle-left-area")
        # What breathes would be a frame each time.
        notebook.page.emulate_media(reduced_motion="reduce")
        film = Film(notebook.page, NOTEBOOK)
        play_demo(notebook, film)
        path = PICTURES / "demo.webp"
        length_s = film.save(path)
    taken = path.stat().st_size
    assert taken < MOST_BYTES_OF_A_FILM, f"{path} has {taken} bytes"
    sys.stdout.write(f"{path.relative_to(ROOT)}: {length_s:.0f} s, {taken / 1000:.0f} KB\n")


def play_demo(notebook: LabNotebook, film: Film) -> None:
    """Do what the moving picture shows."""
    page = notebook.page

    def act(words: str, source: str) -> None:
        """Write a cell in the place of the one before, and begin to run it."""
        film.caption(words)
        notebook.write(1, source)
        page.wait_for_timeout(GLANCE_MS)
        notebook.start(1)

    film.caption("%dist_start: four ranks on this machine")
    notebook.run(0)
    wait_until_all_are("idle", page)
    act("%%spmd: the cell runs on all of them", FIRST)
    notebook.wait()
    page.wait_for_timeout(READING_MS)
    act("A bug: rank 2 never calls all_reduce", HANG)
    page.locator(f"{WIDGET} .jd-note").get_by_text("rank 2").wait_for()
    film.caption("The hang is named: who waits, where, and for whom")
    page.wait_for_timeout(READING_MS)
    film.caption("Interrupt releases them")
    interrupt(notebook)
    wait_until_all_are("idle", page)
    act("The process of rank 2 is killed", LOSS)
    notebook.wait()
    page.locator(f'{WIDGET} [data-rank="2"][data-state="lost"]').wait_for()
    page.wait_for_timeout(READING_MS)
    film.caption("Heal replaces it")
    page.click(f"{WIDGET} .jd-heal")
    wait_until_all_are("idle", page)
    act("The others have kept their variables", AFTER)
    notebook.wait()
    page.wait_for_timeout(READING_MS)


def rank_debugger(studio: Studio) -> None:
    """JupyterLab's debugger steps rank 2 through a cell; the others wait for it."""
    if not studio.server.has_panel:
        sys.stdout.write("rank_debugger is left out: the panel is not built\n")
        return
    with opening_notebooks(studio.server, studio.chromium) as open_notebook:
        cells = a_notebook(LOAD, "%dist_start -n 4 --name demo", CELL)
        notebook = open_notebook(cells, "rank_debugger", ran=2, width=1400, height=800)
        panel, debugger = Panel(notebook.page).open(), LabDebugger(notebook.page, 2)
        panel.wait_for_states("idle")
        debugger.choose("rank 2")
        debugger.toggle_breakpoint(7)
        debugger.breakpoint.wait_for()
        notebook.start(2)
        debugger.wait_for_line("mine = scale")
        debugger.press("stepIn")
        debugger.wait_for_line("scaled = weights * factor")
        debugger.press("next")
        debugger.wait_for_line("return scaled")
        debugger.wait_for_variable("scaled", "ndarray")
        panel.wait_for_text(".jd-note", "rank 2, which is in the debugger")
        studio.keep(notebook.page, "rank_debugger", "")
        debugger.choose("none")
        notebook.wait()


SCENES: dict[str, Callable[[Studio], None]] = {
    scene.__name__: scene
    for scene in (
        local_ranks, local_ranks_dark, hgx, hgx_dark, hang, lost_rank, three_hosts,
        panel_dead_kernel, figures_row, rank_debugger, demo,
    )
}  # fmt: skip


def main(names: list[str]) -> None:
    """Take the pictures with these names, or all."""
    unknown = set(names) - set(SCENES)
    if unknown:
        raise SystemExit(f"no such picture: {', '.join(unknown)}; there are {', '.join(SCENES)}")
    browser = os.environ.get("JD_CHROMIUM") or shutil.which("chromium")
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, headless=True)
        server = JupyterServer(Path(folder))
        try:
            for name in names or SCENES:
                SCENES[name](Studio(chromium, server))
        finally:
            chromium.close()
            left = server.stop()
    assert left == [], left


if __name__ == "__main__":
    main(sys.argv[1:])
