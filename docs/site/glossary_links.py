"""Lead from the first use of a word on a page to the glossary, without a word in its source."""

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

_GLOSSARY = "docs/reference/glossary"
_FOLDERS = ("docs/tutorial/", "docs/how_to/", "docs/explanation/", "docs/coming_from/")
_PLAIN = {
    *("agent", "cell", "client", "command", "framework", "host", "lost", "notice", "ring"),
    "scheduler",
}
"""Words that pages use in other senses too (AI agents, batch schedulers), or in every sentence."""


class AddGlossaryLinks(SphinxTransform):
    """Links each word of the glossary once on a page, in prose: not in code, titles and links."""

    default_priority = 500

    def apply(self, **_: Any) -> None:
        """Add the links to one page."""
        if not self.env.docname.startswith(_FOLDERS):
            return
        self.env.note_dependency(self.env.doc2path(_GLOSSARY))
        left = _words(Path(self.env.doc2path(_GLOSSARY)))
        page = self.app.builder.get_relative_uri(self.env.docname, _GLOSSARY)
        for paragraph in self.document.findall(nodes.paragraph):
            for text in [child for child in paragraph.children if isinstance(child, nodes.Text)]:
                paragraph.replace(text, _linked(text, left, page))


def _words(glossary: Path) -> set[str]:
    """Return the words of the glossary that are linked, as its headings have them."""
    headings = re.findall(r"^## ([a-z]+(?: [a-z]+)*)$", glossary.read_text(), re.MULTILINE)
    return set(headings) - _PLAIN


def _linked(text: nodes.Text, left: set[str], page: str) -> list[nodes.Node]:
    """Return a text in pieces, with links to the words that are left, which are taken out."""
    for word in sorted(left, key=len, reverse=True):
        if found := re.search(rf"\b{word}s?\b", text):
            left.remove(word)
            anchor = f"{page}#{nodes.make_id(word)}"
            link = nodes.reference("", found[0], refuri=anchor, internal=True, classes=["term"])
            before, after = text[: found.start()], text[found.end() :]
            return [
                *_linked(nodes.Text(before), left, page),
                link,
                *_linked(nodes.Text(after), left, page),
            ]
    return [text]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the transform, as Sphinx asks an extension to."""
    app.add_transform(AddGlossaryLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
