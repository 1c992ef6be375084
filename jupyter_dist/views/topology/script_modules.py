"""The views' JavaScript as one text, because a widget takes one and not several modules."""

import re
from functools import cache
from pathlib import Path

STATIC = Path(__file__).parent / "static"
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([a-z_]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default\b)", re.MULTILINE)
_COMMENT_IN_STYLE = re.compile(r"/\*.*?\*/", re.DOTALL)
_COMMENT = re.compile(r"/\*\*.*?\*/|^\s*//[^\n]*$", re.DOTALL | re.MULTILINE)
_INDENTATION = re.compile(r"^[ \t]+|[ \t]+$|\n(?=\s*\n)", re.MULTILINE)
_NEEDLESS_END = re.compile(r"^((?!.*//).*[;,{])\n", re.MULTILINE)
"""The end of a line that shows without a comment that it goes on or is over."""
_AROUND_SIGNS = re.compile(r"\s*([{};,])\s*")
_STYLES = ("topology.css", "rank_panel.css")


def module_order(door: str, folder: Path = STATIC) -> tuple[str, ...]:
    """Names of the modules that `door` needs, each after those which it imports, `door` last."""
    placed: list[str] = []

    def place(name: str) -> None:
        for needed in _IMPORT.findall((folder / name).read_text(encoding="utf-8")):
            if needed not in placed:
                place(needed)
        placed.append(name)

    place(door)
    return tuple(placed)


@cache
def joined_modules(door: str = "widget.js", folder: Path = STATIC) -> str:
    """`door` and all that it imports as one module with the exports of `door` only.

    Top-level names must differ over all modules, and imports must be of the form
    `import { a, b } from "./name.js";`. Types, other comments and indentation stay behind: each
    page that shows a widget loads this text.
    """
    texts = []
    for name in module_order(door, folder):
        text = _IMPORT.sub("", (folder / name).read_text(encoding="utf-8"))
        texts.append(text if name == door else _EXPORT.sub("", text))
    lines = _INDENTATION.sub("", _COMMENT.sub("", "\n".join(texts)))
    return _NEEDLESS_END.sub(r"\1", lines)


@cache
def joined_styles(folder: Path = STATIC) -> str:
    """The style sheets of the view as one text, without comments and needless space."""
    text = "\n".join((folder / name).read_text(encoding="utf-8") for name in _STYLES)
    return _AROUND_SIGNS.sub(r"\1", " ".join(_COMMENT_IN_STYLE.sub("", text).split()))
