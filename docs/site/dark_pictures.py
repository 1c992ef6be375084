"""Show `picture_dark.png` beside `picture_light.png` to readers who have chosen dark."""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

_LIGHT = "_light.png"


class AddDarkPictures(SphinxTransform):
    """Puts the dark twin of a picture, if there is one, behind it; the theme shows one of them."""

    default_priority = 100  # before Sphinx looks which pictures it has to copy

    def apply(self, **_: Any) -> None:
        """Add twins to the page."""
        folder = Path(self.env.doc2path(self.env.docname)).parent
        for light in list(self.document.findall(nodes.image)):
            dark_uri = light["uri"].replace(_LIGHT, "_dark.png")
            if light["uri"].endswith(_LIGHT) and (folder / dark_uri).is_file():
                dark = light.copy()
                dark["uri"] = dark_uri
                light["classes"].append("only-light")
                dark["classes"].append("only-dark")
                light.parent.insert(light.parent.index(light) + 1, dark)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the transform, as Sphinx asks an extension to."""
    app.add_transform(AddDarkPictures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
