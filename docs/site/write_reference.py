"""Write pages of docs/reference from the code: `python docs/site/write_reference.py`.

They are committed, so that they can be read without the site; tests/architecture compares them.
"""

import inspect
import re
from collections.abc import Callable
from pathlib import Path

from jupyter_dist import errors
from jupyter_dist.cli.__main__ import build_parser
from jupyter_dist.errors import DistError
from jupyter_dist.magics import extension
from jupyter_dist.magics.command import MagicGroup
from jupyter_dist.magics.options import PARSERS
from jupyter_dist.options.command_options import OptionParser

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference"
SENTENCES = ROOT / "tests" / "architecture" / "sentences.txt"

_CODE = re.compile(r"(`[^`]+`)")
_SPECIAL = re.compile(r"([\\`*_\[\]<>|])")
_FILLED_IN = re.compile(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")
_FEWEST_LETTERS = 15
"""Of a sentence: one with fewer consists of what is filled in."""


def _head(title: str, source: str, text: str) -> list[str]:
    written = f"Written by `python docs/site/write_reference.py`; edit {source} instead."
    return [f"# {title}", written, text]


def _escape(text: str) -> str:
    """Return Markdown that shows a text as it stands, and its code as code."""
    return "".join(
        part.replace("|", "\\|") if _CODE.fullmatch(part) else _SPECIAL.sub(r"\\\1", part)
        for part in _CODE.split(text)
    )


def _options(parser: OptionParser) -> list[str]:
    rows = [f"| {_escape(f'`{form}`')} | {_escape(text)} |" for form, text in parser.explained()]
    return ["\n".join(["| option | meaning |", "|---|---|", *rows])] if rows else []


# --- magics ---


def _doc_of(magic: str) -> str:
    """Return what the docstring of a magic says, without its options, which are a table here."""
    name = magic.lstrip("%")
    [method] = {getattr(kind, name) for kind in MagicGroup.__subclasses__() if hasattr(kind, name)}
    return re.split(r"\n+(?:Options|Example)::", inspect.getdoc(method) or "")[0]


def describe_magics() -> str:
    """Return the page about magics."""
    parts = _head(
        "Magics",
        "`jupyter_dist/options` and the docstrings of `jupyter_dist/magics`",
        f"After `{extension.__doc__.split('`')[1]}`. `%dist_start?` shows the same in a notebook, "
        "and Tab completes options.",
    )
    for parser in PARSERS:
        example = f"```text\n{parser.example}\n```"
        parts += [f"## `{parser.prog}`", _doc_of(parser.prog), example, *_options(parser)]
    return "\n\n".join(parts) + "\n"


# --- commands of the terminal ---


def describe_commands() -> str:
    """Return the page about commands."""
    parser = build_parser()
    parts = _head("Commands", "`jupyter_dist/cli`", _escape(parser.epilog or ""))
    for name, one in parser.parse_args(["list"]).commands.items():
        example = f"```console\n$ {one.example}\n```"
        parts += [f"## `jupyter dist {name}`", _escape(one.description), example, *_options(one)]
    return "\n\n".join(parts) + "\n"


# --- errors ---


def _sentences() -> dict[str, list[str]]:
    """Return what errors say, by the name of their class; … stands for what is filled in."""
    found: dict[str, list[str]] = {}
    for line in SENTENCES.read_text(encoding="utf-8").splitlines()[1:]:
        kind, _, text = line.partition(": ")
        text = _FILLED_IN.sub("…", text)
        if not line.startswith("##") and sum(map(str.isalpha, text)) >= _FEWEST_LETTERS:
            found.setdefault(kind, []).append(text)
    return found


def _tree(kind: type[DistError]) -> list[type[DistError]]:
    """Return a class of errors and all below it, in the order of their definition."""
    below = [one for one in kind.__subclasses__() if one.__module__ == errors.__name__]
    return [kind, *(deeper for one in below for deeper in _tree(one))]


def describe_errors() -> str:
    """Return the page about errors."""
    drawing = (errors.__doc__ or "").partition("\n\n")[2].strip()
    parts = _head(
        "Errors",
        "`jupyter_dist/errors.py` and what raises them",
        "An error names what was given, what is accepted and the next step. `code` is for "
        "programs; … stands for what is filled in.",
    )
    parts.append(f"```text\n{drawing}\n```")
    said = _sentences()
    for kind in _tree(DistError):
        doc = (inspect.getdoc(kind) or "").partition("\n")[0]
        parts += [f"## {kind.__name__}", f"`{kind.code}`: {doc}"]
        sentences = sorted(set(said.get(kind.__name__, [])))
        parts += ["\n".join(f"- {_escape(each)}" for each in sentences)] if sentences else []
    return "\n\n".join(parts) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "magics.md": describe_magics,
    "commands.md": describe_commands,
    "errors.md": describe_errors,
}

if __name__ == "__main__":
    for name, describe_page in PAGES.items():
        (FOLDER / name).write_text(describe_page(), encoding="utf-8")
