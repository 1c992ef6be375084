"""A picture of a cluster without its kernel: it stands still, says of when it is, and has no buttons."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jupyter_dist.views.topology.changes import Teller

from .lab import WIDGET, LabNotebook, a_notebook, wait_until_all_are
from .topologies import local

pytestmark = pytest.mark.browser

OpenNotebook = Callable[..., LabNotebook]
LOAD, START = "%load_ext jupyter_dist", "%dist_start -n 4 --name demo"
MOST_BYTES = 10_000
# Lab keeps the state of widgets in notebooks for those who have asked for it.
KEEP_WIDGETS = """keeps => window.jupyterapp.serviceManager.settings.save(
  '@jupyter-widgets/jupyterlab-manager:plugin', JSON.stringify({ saveState: keeps }))"""

# A model whose kernel says what the test wants, and a view of it: `say`, `end` and `sent`.
OPEN_DOOR = """async () => {
  const { default: factory } = await import('/door.js');
  const script = await (await fetch('/joined.js')).text();
  const heard = {}, door = factory(), el = document.createElement('div');
  const emit = (event, ...values) => Promise.all((heard[event] ?? []).map(call => call(...values)));
  const model = { snapshot: '<p>Snapshot, not live</p>', get: name => model[name],
    on: (event, call) => (heard[event] ??= []).push(call), send: message => sent.push(message) };
  Object.assign(window, { sent: [], end: () => emit('comm_live_update'),
    say: (kind, told) => emit('msg:custom', { kind, told: JSON.parse(told), script, style: '' }) });
  el.id = 'behind-the-door';
  document.body.replaceChildren(el);
  door.initialize({ model });
  door.render({ model, el });
}"""


def test_a_view_is_live_from_the_script_on_until_the_kernel_ends_or_is_silent(
    open_view: Callable[..., Any],
) -> None:
    page, teller = open_view(has_test_clock=True), Teller()

    def say(kind: str, at_s: float) -> None:
        told = msgspec.json.encode(teller.tell(local(("idle",) * 4), at_s)).decode()
        page.evaluate("([kind, told]) => say(kind, told)", [kind, told])

    def is_live() -> bool:
        is_still = "not live" in page.inner_text("#behind-the-door")
        buttons = page.locator("#behind-the-door button").count()
        assert is_still == (buttons == 0)
        return not is_still

    page.evaluate(OPEN_DOOR)
    assert page.evaluate("sent") == [{"kind": "script"}]
    assert not is_live()
    say("script", 1.0)
    assert is_live()
    page.clock.run_for(50_000)
    say("change", 51.0)
    page.clock.run_for(50_000)
    assert is_live()
    page.clock.run_for(15_000)
    assert not is_live()
    say("change", 116.0)
    assert is_live()
    page.evaluate("end()")
    assert not is_live()


def wait_for_the_snapshot(notebook: LabNotebook, index: int) -> Any:
    """Wait until a cell shows a picture that stands still; give its output."""
    notebook.wait_for_text(index, "not live")
    output = notebook.show(index)
    assert "Snapshot of 20" in output.inner_text()
    assert output.query_selector_all("button") == []
    assert notebook.page.locator(WIDGET).count() == 0
    return output


@pytest.mark.slow
def test_a_picture_is_live_on_a_page_that_comes_later_and_stands_still_after_the_kernel(
    open_notebook: OpenNotebook, pictures: Path
) -> None:
    notebook = open_notebook(a_notebook(LOAD, START), "kernel_ended", ran=2)
    wait_until_all_are("idle", notebook.page)
    notebook.save()
    notebook.reload()
    wait_until_all_are("idle", notebook.page)
    notebook.restart_kernel()
    wait_for_the_snapshot(notebook, 1)
    notebook.page.screenshot(path=pictures / "picture_without_kernel.png")


@pytest.mark.slow
def test_a_notebook_saved_with_its_widgets_shows_how_the_cluster_was_and_offers_nothing(
    open_notebook: OpenNotebook, pictures: Path
) -> None:
    notebook = open_notebook(a_notebook(LOAD, START), "saved_with_widgets")
    notebook.page.evaluate(KEEP_WIDGETS, True)
    notebook.reload()  # it is read when a page begins
    try:
        notebook.run(0)
        notebook.run(1)
        wait_until_all_are("idle", notebook.page)
        saved = notebook.save()
    finally:
        notebook.page.evaluate(KEEP_WIDGETS, False)
    kept = json.dumps(saved["metadata"]["widgets"])
    print(f"{len(kept):,} bytes of widgets in the saved notebook")
    assert len(kept) < MOST_BYTES
    notebook.shut_kernel_down()
    reader = open_notebook(saved, "read_again")
    assert reader.is_trusted(1)
    wait_for_the_snapshot(reader, 1)
    reader.page.screenshot(path=pictures / "picture_saved.png")
    reader.change_theme("JupyterLab Dark")
    reader.page.screenshot(path=pictures / "picture_saved_dark.png")
    reader.change_theme("JupyterLab Light")
