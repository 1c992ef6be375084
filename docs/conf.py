"""How Sphinx makes a site of the pages: `make docs`."""

import sys
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

from jupyter_dist.version import __version__

sys.path += [str(Path(__file__).parent / folder) for folder in ("site", "recordings")]

project = author = html_title = "jupyter-dist"
version = release = __version__

# Sphinx reads from the root of the repository: links lead to the same place there and here.
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "notebooks/*.ipynb",
    "benchmarks/README.md",
    "benchmarks/results/*.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "changes/README.md",
]
exclude_patterns = [".*", "build", "dist", "jupyter_dist", "labextension", "out", "tests"]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "dark_pictures",
    "glossary_links",
    "pages",  # of recordings
]
autodoc_member_order = "groupwise"
autodoc_typehints_format = "short"
autodoc_typehints = "description"
default_role = "code"  # in docstrings
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # of types in signatures, most have no page
smartquotes = False  # -- begins an option
nb_execution_mode = "off"  # notebooks are shown as they were saved
myst_heading_anchors = 4

# Links between pages are checked by every build; the other is an address in a cloud.
linkcheck_ignore = [r"\.\./", "http://169.254.169.254/"]

html_theme = "pydata_sphinx_theme"
html_static_path = ["site/static"]
html_css_files = ["site.css"]
html_extra_path = ["site/index.html"]
html_show_sourcelink = html_copy_source = False
_SINGLE_PAGES = ("docs/recordings", "CHANGELOG", "CONTRIBUTING")
html_sidebars = {page: [] for page in _SINGLE_PAGES}
html_theme_options = {
    "header_links_before_dropdown": 8,
    "navbar_align": "left",
    "show_prev_next": False,
    "footer_start": [],
    "footer_end": [],
}


def setup(app: Sphinx) -> None:
    """Name the languages of code that Pygments has no words for."""
    app.add_lexer("hostfile", TextLexer)
