"""Whether an answer, which is any text, tells what is wrong with a program, and blames no one else.

An answer is read mention by mention: `rank 2` or `ranks 0-1,3`, and what is said right before and
behind it. Who is only said to wait, or to have been released, is a victim; every other rank that is
named is a suspect. Of a healthy program ranks are blamed by sentences with a word of fault in them.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from jobs import Job

MOST_LINES = 5
"""Who names more lines of such a short program names none."""
_RANKS = re.compile(r"\branks?\s+(\d+(?:\s*(?:-|,|to|and|,\s*and)\s*\d+)*)", re.IGNORECASE)
_RANGE = re.compile(r"(\d+)(?:\s*(?:-|to)\s*(\d+))?")
_SENTENCE_END = re.compile(r"\n|\.\s")
_CONSEQUENCE = r"(?:PeerFailed|CollectiveMismatch|KeyboardInterrupt|RuntimeError)"
_VICTIM = re.compile(
    r"(?:\W*(?:all|still|only)?\s*(?:(?:is|are|was|were)\s+)?"
    r"(?:waits?|waiting|hangs?|blocked|stuck|in \S+ of|forming|released)\b(?!\s+for each other))"
    rf"|(?:: {_CONSEQUENCE}\b)"
)
"""What is said behind ranks that suffer from others: they wait, or raise what tells of it."""
_VICTIM_BEFORE = re.compile(
    rf"(?:{_CONSEQUENCE} on|--|\breleased|\bwait(?:s|ing)? (?:for|on)|\bbut|\bunlike|\bthan) ?$"
)
_NO_HANG = re.compile(r"no hang|not a hang|healthy|nothing is wrong", re.IGNORECASE)
_FAULT = re.compile(
    r"never|finished|raise[sd]|\blost\b|kill|stopped|each other|not go on|■|deadlock|stuck|died|"
    r"crash|mismatch|differ|\bhangs?\b|fault|missing|wrong",
    re.IGNORECASE,
)


class Mention(NamedTuple):
    """Ranks that an answer names."""

    ranks: frozenset[int]
    is_victim: bool
    """It says no more of them than that they wait, or were released."""


class Score(NamedTuple):
    """What an answer is worth."""

    rank: bool
    """It names the ranks that do what is wrong, apart from others."""
    line: bool
    """It names the line, as `name.py:7` or `line 7`."""
    cause: bool
    """It says of what kind the mistake is."""
    accused: frozenset[int]
    """Ranks that it blames and that have done nothing wrong."""

    @property
    def names_it(self) -> bool:
        """It names rank and line, and no one else is blamed."""
        return self.rank and self.line and not self.accused


def score(answer: str, job: Job) -> Score:
    """Return what an answer about a program is worth."""
    mentions = list(find_mentions(answer))
    if job.is_healthy:
        accused = _accused_in_health(answer)
        return Score(not accused, not accused, not accused, accused)
    suspects = [mention.ranks for mention in mentions if not mention.is_victim]
    # Where ranks are in a circle, those that make the mistake wait as well.
    telling = [mention.ranks for mention in mentions] if job.also else suspects
    named = frozenset().union(*(ranks for ranks in telling if ranks <= job.ranks))
    lines = find_lines(answer, job)
    return Score(
        rank=named == job.ranks,
        line=bool(lines & job.lines) and len(lines) <= MOST_LINES,
        cause=bool(re.search(job.says, answer)),
        accused=frozenset().union(*suspects) - job.ranks - job.also,
    )


def find_mentions(answer: str) -> Iterator[Mention]:
    """Give each mention of ranks with the words behind it."""
    found = list(_RANKS.finditer(answer))
    ends = [*(mention.start() for mention in found[1:]), len(answer)]
    for this, end in zip(found, ends, strict=False):
        said, before = answer[this.end() : end], answer[: this.start()]
        is_victim = bool(_VICTIM.match(said) or _VICTIM_BEFORE.search(before))
        yield Mention(_read_ranks(this[1]), is_victim)


def find_lines(answer: str, job: Job) -> set[int]:
    """Return the lines of the program that an answer names."""
    places = rf"(?:{re.escape(job.path.name)}\"?(?::|, line )|(?<!\", )\blines? )(\d+)"
    return {int(number) for number in re.findall(places, answer)}


def _accused_in_health(answer: str) -> frozenset[int]:
    """Return ranks of which a sentence says that something is wrong with them."""
    sentences = (each for each in _SENTENCE_END.split(answer) if not _NO_HANG.search(each))
    blaming = (each for each in sentences if _FAULT.search(each))
    return frozenset().union(*(m.ranks for each in blaming for m in find_mentions(each)))


def _read_ranks(text: str) -> frozenset[int]:
    ranges = ((int(first), int(last or first)) for first, last in _RANGE.findall(text))
    return frozenset(rank for first, last in ranges for rank in range(first, last + 1))
