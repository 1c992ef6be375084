"""Recorded clusters play on pages that are opened as files: no server, no kernel, no network."""

import importlib.util
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.matrix import only

from .test_topology_looks import AXE

pytestmark = pytest.mark.browser

RECORDINGS = Path(__file__).parents[2] / "docs" / "recordings"
NAMES = sorted(path.name.removesuffix(".jsonl.gz") for path in RECORDINGS.glob("*.jsonl.gz"))
MOST_BYTES = 200_000
STATES = """() => [...document.querySelector('dist-replay').shadowRoot.querySelectorAll('[data-rank]')]
  .map(cell => cell.dataset.state)"""
ADD_OTHERS = """names => names.forEach(name => {
  const node = document.createElement('dist-replay');
  node.setAttribute('recording', name);
  document.querySelector('main').append(node);
})"""
MOVING = """() => [...document.querySelectorAll('dist-replay')]
  .flatMap(node => [...node.shadowRoot.querySelectorAll('*')])
  .filter(node => getComputedStyle(node).animationName !== 'none').length"""
AXE_FINDS = """async () => (await axe.run()).violations
  .map(({id, nodes}) => `${id}: ${nodes.map(node => node.html).join(' | ').slice(0, 400)}`)"""
OpenRecording = Callable[..., Any]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that docs/recordings/pages.py makes."""
    spec = importlib.util.spec_from_file_location("recordings_pages", RECORDINGS / "pages.py")
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder = tmp_path_factory.mktemp("recordings")
    assert module.write_pages(folder) == NAMES
    return folder


@pytest.fixture
def open_recording(chromium: Any, pages: Path) -> Iterator[OpenRecording]:
    """Open the page of a recording, standing at its begin; time goes on as the test says."""
    contexts, problems = [], []

    def open_page(name: str, **options: Any) -> Any:
        context = chromium.new_context(viewport={"width": 1200, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "request",
            lambda asked: asked.url.startswith("file:") or problems.append(asked.url),
        )
        page.clock.install(time=0)
        page.goto((pages / f"{name}.html").as_uri())
        page.get_by_role("button", name="Play").wait_for()
        page.clock.pause_at(600)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


def moments(name: str) -> dict[str, float]:
    """When what happens in a recording."""
    text = zlib.decompress((RECORDINGS / f"{name}.jsonl.gz").read_bytes(), wbits=31).decode()
    lines = [json.loads(line) for line in text.splitlines()[1:]]
    return {said["text"]: at_s for at_s, said in lines if said["kind"] == "moment"}


def scrub(page: Any, at_s: float) -> None:
    """Move the scrubber there, as a pointer or a key does."""
    page.get_by_role("slider", name="Time").fill(str(at_s))


def test_the_recorded_hang_shows_its_sentence_and_its_picture_at_each_time(
    open_recording: OpenRecording, pictures: Path
) -> None:
    page, at = open_recording("hang"), moments("hang")
    note, output = page.locator(".jd-note"), page.get_by_role("group", name="Output of the cell")
    assert page.evaluate(STATES) == ["idle"] * 4
    assert not note.is_visible()
    scrub(page, at["the hang is named"] + 0.5)
    assert page.evaluate(STATES) == ["hung", "hung", "idle", "hung"]
    assert "rank 2 finished the cell and never called it" in note.inner_text()
    assert "rank 2 finished the cell and never called it" in output.inner_text()
    page.screenshot(path=pictures / "replay_hang.png")
    scrub(page, at["all ranks are idle again"] + 0.5)
    assert page.evaluate(STATES) == ["idle"] * 4
    assert not note.is_visible()
    assert "KeyboardInterrupt on ranks 0-1,3" in output.inner_text()
    scrub(page, at["a cell begins"] + 1)
    assert page.evaluate(STATES) == ["collective", "collective", "idle", "collective"]
    assert not note.is_visible(), "going back leaves nothing of what comes later"


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_is_small_and_plays_to_its_end(
    open_recording: OpenRecording, name: str
) -> None:
    assert (RECORDINGS / f"{name}.jsonl.gz").stat().st_size < MOST_BYTES
    page = open_recording(name)
    page.get_by_role("button", name="Play").click()
    page.clock.run_for(1000)
    assert page.get_by_role("button", name="Pause").is_visible()
    page.clock.fast_forward(60_000)
    page.clock.run_for(1000)
    assert page.get_by_role("button", name="Play").is_visible()
    assert set(page.evaluate(STATES)) == {"idle"}
    page.clock.run_for(20_000)
    assert not page.locator(".jd-stale").is_visible(), "what stands still is not silent"


def test_keys_move_it_and_lead_to_moments(open_recording: OpenRecording) -> None:
    page = open_recording("lost_rank")
    slider = page.get_by_role("slider", name="Time")
    slider.press("ArrowRight")
    assert slider.input_value() == "0.25"
    page.get_by_role("button", name="rank 2 is lost").press("Enter")
    assert page.evaluate(STATES) == ["idle", "idle", "lost", "idle"]
    assert "rank 2 is lost" in slider.get_attribute("aria-valuetext")
    slider.press("End")
    assert page.evaluate(STATES) == ["idle"] * 4
    page.locator('[data-rank="2"]').press("Enter")
    panel = page.get_by_role("region", name="rank 2")
    assert panel.get_by_role("button").all_inner_texts() == ["Close"], "nothing can be asked of it"


@pytest.mark.slow
@pytest.mark.parametrize("scheme", only(["light"], ["light", "dark"], at_night=["dark"]))
def test_axe_finds_no_violation_on_a_page_with_all_and_nothing_moves_unasked(
    open_recording: OpenRecording, pictures: Path, scheme: str
) -> None:
    if not AXE.exists():
        pytest.skip("no axe-core: run `npm ci` in labextension")
    page = open_recording(NAMES[0], color_scheme=scheme, reduced_motion="reduce")
    page.evaluate(ADD_OTHERS, NAMES[1:])
    for name in NAMES:
        there = page.locator(f"dist-replay[recording={name}]")
        there.get_by_role("list", name="Moments").get_by_role("button").nth(3).click()
    page.clock.run_for(1000)
    assert page.evaluate(MOVING) == 0
    page.clock.resume()
    page.evaluate(AXE.read_text(encoding="utf-8"))
    assert page.evaluate(AXE_FINDS) == []
    page.screenshot(path=pictures / f"replay_{scheme}.png", full_page=True)


def test_a_recording_that_is_not_there_is_named(open_recording: OpenRecording) -> None:
    page = open_recording("hang")
    page.evaluate("document.querySelector('dist-replay').setAttribute('recording', 'lunch')")
    page.evaluate("document.querySelector('main').append(document.querySelector('dist-replay'))")
    assert "there is no recording lunch" in page.get_by_role("alert").inner_text()
