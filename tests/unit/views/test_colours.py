"""Colours of outputs can be seen on white and on JupyterLab's dark ground, words and marks alike."""

import re
from collections.abc import Iterator

import pytest

from jupyter_dist.views.cell.output_html import _OTHER_STATE_COLOUR, _STATE_COLOURS
from jupyter_dist.views.outputs.ansi import _PALETTE, readable
from jupyter_dist.views.tables.bench_plot import _COLOURS as OF_CALLS
from jupyter_dist.views.tables.table import COLOURS
from jupyter_dist.views.topology.snapshot import _COLOURS as OF_STATES

Colour = tuple[float, float, float]
WHITE, DARK = (255.0,) * 3, (17.0,) * 3
PAGES: dict[str, tuple[Colour, Colour]] = {
    "light": (WHITE, (33.0,) * 3),
    "dark": (DARK, (255.0,) * 3),
}
"""JupyterLab's ground and the text of outputs on it."""
WORDS, SHAPES = 4.5, 3.0
"""The least contrasts that WCAG 2 wants (1.4.3 and 1.4.11)."""


def contrast(one: Colour, other: Colour) -> float:
    """Return WCAG's contrast of two colours, 1 to 21."""

    def luminance(colour: Colour) -> float:
        parts = [part / 255 for part in colour]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(
            weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True)
        )

    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def colour_of(css: str) -> Colour:
    """Read `#rrggbb` or `rgb(r,g,b)`."""
    if css.startswith("#"):
        red, green, blue = (float(int(css[i : i + 2], 16)) for i in (1, 3, 5))
    else:
        red, green, blue = map(float, re.findall(r"\d+", css))
    return red, green, blue


def marks() -> Iterator[str]:
    yield from {
        *COLOURS.values(),
        *OF_CALLS.values(),
        *OF_STATES.values(),
        *_STATE_COLOURS.values(),
        _OTHER_STATE_COLOUR,
    }


@pytest.mark.parametrize("page", PAGES)
def test_marks_and_edges_are_seen(page: str) -> None:
    ground, _ = PAGES[page]
    dim = {mark: round(contrast(colour_of(mark), ground), 2) for mark in marks()}
    assert {mark: ratio for mark, ratio in dim.items() if ratio < SHAPES} == {}


@pytest.mark.parametrize("page", PAGES)
def test_coloured_words_are_read(page: str) -> None:
    ground, text = PAGES[page]
    mixed = re.fullmatch(r"color-mix\(in srgb,C (\d+)%,currentColor\)", readable("C"))
    assert mixed is not None
    share = int(mixed[1]) / 100
    ratios = {}
    for colour in _PALETTE:
        red, green, blue = (share * c + (1 - share) * t for c, t in zip(colour, text, strict=True))
        ratios[colour] = round(contrast((red, green, blue), ground), 2)
    assert {colour: ratio for colour, ratio in ratios.items() if ratio < WORDS} == {}
