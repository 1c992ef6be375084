"""Contrasts of the picture in every theme: words 4.5:1, what else says something 3:1 (WCAG 1.4.3 and 1.4.11)."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jupyter_dist.model.hosts.topology import Topology
from tests.matrix import only

from .topologies import (
    PCIE_LINKS,
    large_with_trouble,
    lost,
    made_hgx,
    many,
    show,
    two_hosts,
    with_gpus,
)

pytestmark = pytest.mark.browser

THEMES = Path(sys.prefix) / "share" / "jupyter" / "lab" / "themes" / "@jupyterlab"
LOOKS: dict[str, tuple[str, dict[str, str]]] = {
    "light": ("", {"color_scheme": "light"}),
    "dark": ("", {"color_scheme": "dark"}),
    "lab_light": ("theme-light-extension", {"color_scheme": "light"}),
    "lab_dark": ("theme-dark-extension", {"color_scheme": "light"}),
    "lab_high": ("theme-dark-high-contrast-extension", {"color_scheme": "dark"}),
    "more_light": ("", {"color_scheme": "light", "contrast": "more"}),
    "more_dark": ("", {"color_scheme": "dark", "contrast": "more"}),
    "forced": ("", {"color_scheme": "dark", "forced_colors": "active"}),
}
# Sentences of what is too faint: of each way to look, ink on every ground that may be below it.
TOO_FAINT = """([words, shapes, isStale]) => {
  document.querySelector('.jd-topology').toggleAttribute('data-stale', isStale);
  const canvas = Object.assign(document.createElement('canvas'), { width: 1, height: 1 });
  const context = canvas.getContext('2d', { willReadFrequently: true });
  const ground = getComputedStyle(document.querySelector('.jd-topology')).backgroundColor;
  const paint = (layers) => {
    context.globalAlpha = 1;
    for (const [colour, alpha = 1] of [['#fff'], [ground], ...layers]) {
      if (colour === 'none') continue;
      context.globalAlpha = alpha;
      context.fillStyle = colour;
      context.fillRect(0, 0, 1, 1);
    }
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = (colour) => {
    const [r, g, b] = colour.map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [a, b] = [luminance(one), luminance(other)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  };
  const opacityOf = (node) => {
    let all = 1;
    for (let each = node; each instanceof Element; each = each.parentElement) all *= Number(getComputedStyle(each).opacity);
    return all;
  };
  const fillOf = (node) => (node ? [[getComputedStyle(node).fill]] : []);
  // What lies below a drawn thing: each list of layers is one possibility.
  const groundsOf = (node) => {
    const cell = node.closest('.jd-cell');
    const host = node.closest('.jd-host')?.querySelector('.jd-host-box');
    if (cell) {
      const box = [...fillOf(host), ...fillOf(cell.querySelector('.jd-box'))];
      const isMark = node.matches('.jd-awaited, .jd-ring');
      return isMark ? [box] : [box, [...box, ...fillOf(cell.querySelector('.jd-use'))]];
    }
    const group = node.closest('.jd-group')?.querySelector('.jd-group-box');
    if (group) return [fillOf(group)];
    if (node.closest('.jd-labels')) return [fillOf(document.querySelector('.jd-link-plate'))];
    if (host) return [fillOf(host)];
    const layers = [];
    for (let each = node; each && !each.matches('.jd-topology'); each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if (!(node instanceof SVGElement && each.matches('svg'))) layers.unshift([colour]);
    }
    return [layers];
  };
  const found = new Map();
  const look = (node, colour, least, part) => {
    if (!colour || colour === 'none' || colour === 'rgba(0, 0, 0, 0)') return;
    for (const layers of groundsOf(node)) {
      const ratio = contrast(paint([...layers, [colour, opacityOf(node)]]), paint(layers));
      const state = node.closest('[data-state]')?.dataset.state ?? '';
      const name = `${node.closest('.jd-dense') ? 'dense ' : ''}${node.getAttribute('class') || node.tagName} ${state} ${part}`;
      if (ratio < least) found.set(name, Math.min(found.get(name) ?? 99, Math.round(ratio * 100) / 100));
    }
  };
  const isOff = (node) => node.closest('button:disabled') || !node.checkVisibility();
  for (const node of document.querySelectorAll('.jd-topology *')) {
    const hasWords = [...node.childNodes].some((each) => each.nodeType === 3 && each.data.trim());
    if (!hasWords || isOff(node) || node.matches('title')) continue;
    const style = getComputedStyle(node);
    look(node, node instanceof SVGElement ? style.fill : style.color, words, 'words');
  }
  const SHAPES = '.jd-glyph, .jd-ring, .jd-tiles, .jd-awaited, .jd-link, .jd-flow, .jd-network, .jd-shared, .jd-fill, .jd-rdma, .jd-curve-line,'
    + '.jd-group[data-alarm="lost"] .jd-group-box, .jd-group[data-alarm="hung"] .jd-group-box';
  for (const node of document.querySelectorAll(SHAPES)) {
    if (isOff(node)) continue;
    const { fill, stroke } = getComputedStyle(node);
    look(node, stroke !== 'none' ? stroke : fill, shapes, 'shape');
  }
  return [...found].map(([name, ratio]) => `${name}: ${ratio}`).sort();
}"""


def all_that_is_drawn() -> list[Topology]:
    return [
        two_hosts(),
        lost(),
        made_hgx(),
        with_gpus(PCIE_LINKS),
        many(128),
        large_with_trouble(1024),
    ]


@pytest.mark.parametrize("look", only(["light", "lab_high"], LOOKS, at_night=[*LOOKS][2:7]))
def test_words_and_shapes_stand_out(open_view: Callable[..., Any], look: str) -> None:
    theme, options = LOOKS[look]
    page = open_view(reduced_motion="reduce", **options)  # what breathes is fainter now and then
    if theme:
        page.add_style_tag(content=(THEMES / theme / "index.css").read_text(encoding="utf-8"))
    faint = set()
    for sequence, topology in enumerate(all_that_is_drawn(), 1):
        show(page, msgspec.structs.replace(topology, sequence=sequence))
        page.wait_for_selector(f'.jd-topology[data-sequence="{sequence}"]')
        page.focus('[data-key][tabindex="0"]')
        words = 7 if "more" in look else 4.5
        for is_stale in (False, True):
            faint |= set(page.evaluate(TOO_FAINT, [words, 3, is_stale]))
    assert faint == set()
