"""The numbers of docs/explanation/failures.md are those of the programs here."""

import re
from pathlib import Path

from . import displays, ends, interpreter, objects, output, shell
from .test_hostile_objects import ON_ALL_RANKS, VALUES

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "failures.md"
GROUPS = (
    ends.EXITS,
    ends.EXCEPTIONS,
    output.VALUES,
    output.STREAMS,
    interpreter.BUILTINS,
    interpreter.HOOKS,
    interpreter.MODULES,
    interpreter.SYSTEM,
    shell.SHELL,
    shell.TEXTS,
    shell.NAMES,
    shell.THREADS,
    displays.DISPLAYS,
    (*objects.SURVIVED, *ON_ALL_RANKS, *objects.FATAL),
    (*objects.UNPACKABLE, *objects.PULLED),
    VALUES,
)


def test_the_page_counts_what_is_tested():
    section = PAGE.read_text().partition("## Hostile programs")[2].partition("\n## ")[0]
    counts = [int(count) for count in re.findall(r"^\|[^|]+\| (\d+) \|", section, re.MULTILINE)]
    assert counts == [len(group) for group in GROUPS]
    assert sum(counts[:12]) >= 150
    assert sum(counts[12:]) >= 60
