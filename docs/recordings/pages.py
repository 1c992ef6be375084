"""Make what shows the recordings: `python docs/recordings/pages.py FOLDER`.

The folder gets `replay.js`, which defines the element `<dist-replay recording="NAME">`, a script
`NAME.js` for each recording, which the element loads from beside it, and a page `NAME.html` for
each. They need no server and no network.
"""

import base64
import html
import json
import re
import sys
import zlib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from jupyter_dist.views.topology.script_modules import (  # noqa: E402
    joined_modules,
    joined_styles,
)

_MODULE_WORDS = re.compile(r"^(import \{[^}]*\} from .*;\n|export )", re.MULTILINE)
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
  :root {{ color-scheme: light dark; color: CanvasText; background: Canvas; }}
  body {{ font-family: system-ui, sans-serif; max-width: 1200px; margin: 0 auto; padding: 12px; }}
</style>
<main>
<h1>{title}</h1>
<dist-replay recording="{name}"></dist-replay>
</main>
<script src="replay.js"></script>
</html>
"""


def element_script() -> str:
    """Return the script of the element, with the view and its styles inside."""
    own = (HERE / "replay.js").read_text(encoding="utf-8")
    modules = "\n".join([joined_modules("changes.js"), joined_modules("view.js"), own])
    style = joined_styles() + (HERE / "replay.css").read_text(encoding="utf-8")
    return (
        f"(() => {{\nconst STYLE = {json.dumps(style)};\n{_MODULE_WORDS.sub('', modules)}\n}})();\n"
    )


def write_pages(folder: Path) -> list[str]:
    """Write all files into this folder; return the names of the recordings."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "replay.js").write_text(element_script(), encoding="utf-8")
    names = []
    for path in sorted(HERE.glob("*.jsonl.gz")):
        name, packed = path.name.removesuffix(".jsonl.gz"), path.read_bytes()
        names.append(name)
        script = f'document.currentScript.recording = "{base64.b64encode(packed).decode()}";\n'
        (folder / f"{name}.js").write_text(script, encoding="utf-8")
        first = zlib.decompress(packed, wbits=31).decode().partition("\n")[0]
        title = html.escape(json.loads(first)["title"].capitalize())
        page = _PAGE.format(title=title, name=name)
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return names


def setup(app: Any) -> dict[str, bool]:
    """Write them with each site that Sphinx builds as HTML."""

    def write(app: Any, problem: Exception | None) -> None:
        if problem is None and app.builder.format == "html":
            write_pages(Path(app.outdir) / "_static" / "recordings")

    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    write_pages(Path(sys.argv[1]))
