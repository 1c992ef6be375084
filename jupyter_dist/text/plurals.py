"""Nouns and verbs that fit a number."""

from collections.abc import Sized
from typing import TypeVar

_Words = TypeVar("_Words", str, tuple[str, ...])
_NUMBERS = {
    "it": ("it", "they"),
    "its": ("its", "their"),
    "s": ("s", ""),
    "n": ("", "s"),
    "nes": ("", "es"),
    "be": ("is", "are"),
    "do": ("does", "do"),
    "has": ("has", "have"),
    "was": ("was", "were"),
}
"""Words that differ between one rank and many; `s` ends verbs, `n` and `nes` end nouns."""


def count_of(number: int, noun: str) -> str:
    """Return a number of things: `1 rank`, `1,200 lines`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def fit(things: Sized, one: _Words, many: _Words) -> _Words:
    """Return the words for one thing, or those for any other number of them."""
    return one if len(things) == 1 else many


def agree(clause: str, count: int) -> str:
    """Write a clause with words in braces for so many ranks."""
    return clause.format_map({word: both[count != 1] for word, both in _NUMBERS.items()})


def escape(text: str) -> str:
    """Keep the braces of user code out of a clause's own."""
    return text.replace("{", "{{").replace("}", "}}")
