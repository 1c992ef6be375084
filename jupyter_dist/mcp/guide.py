"""The text that teaches an agent to find why a cell hangs: half of docs/how_to/agents.md."""

from pathlib import Path

_SHIPPED = Path(__file__).with_name("agents.md")
_IN_SOURCES = Path(__file__).parents[2] / "docs" / "how_to" / "agents.md"
_FOR_PEOPLE = "\n---\n"
"""What stands before the half that is for people."""
_FRONT_MATTER = """\
---
name: jupyter-dist
description: Find out why a cell on a jupyter-dist cluster hangs or fails, with the dist_ tools.
---

"""


def read_guide() -> str:
    """Return the text for agents."""
    place = _SHIPPED if _SHIPPED.exists() else _IN_SOURCES
    return place.read_text(encoding="utf-8").partition(_FOR_PEOPLE)[0].rstrip() + "\n"


def read_skill() -> str:
    """Return the same as a file SKILL.md, as clients that know skills take it."""
    return f"{_FRONT_MATTER}{read_guide()}"
