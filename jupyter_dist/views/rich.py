"""Rich outputs: which representation of a MIME bundle is shown, and when two are the same."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

_PREFERRED = (
    "text/html",
    "text/markdown",
    "image/svg+xml",
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "text/latex",
    "application/json",
    "text/plain",
)


_WIDGET = "application/vnd.jupyter.widget-view+json"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class RichOutput(msgspec.Struct, frozen=True):
    """The representation of an output that is shown, beside its plain text."""

    mime: str
    payload: str
    """Markup or text; images as base64."""
    plain: str
    fingerprint: str
    """Equal for equal content."""
    size: tuple[int, int] | None = None
    """Width and height of an image in CSS pixels, where they were given."""

    @property
    def is_text(self) -> bool:
        """There is nothing to show but plain text."""
        return self.mime == "text/plain"

    @property
    def without_addresses(self) -> str:
        """Equal for objects that differ only in where they are in memory."""
        return _ADDRESS.sub(" at 0x…", self.payload) if self.is_text else self.fingerprint

    @property
    def stand_in(self) -> str:
        """Text where the output itself cannot be shown."""
        return self.plain or f"<{self.mime}>"


def read_bundle(
    data: Mapping[str, Any], metadata: Mapping[str, Any] | None = None
) -> RichOutput | None:
    """Choose what to show; None for a bundle with nothing that a static page can show.

    A widget's model lives on its rank, where no page can reach it: a sentence says what it is.
    """
    if _WIDGET in data and not data.get("text/html"):
        data = {"text/plain": _name_widget(data)}
    mime = next((mime for mime in _PREFERRED if data.get(mime) not in (None, "")), None)
    if mime is None:
        return None
    payload = _as_text(mime, data[mime])
    plain = _as_text("text/plain", data.get("text/plain", ""))
    digest = hashlib.blake2b(f"{mime}\0{payload}\0".encode("utf-8", "replace"), digest_size=12)
    return RichOutput(mime, payload, plain, digest.hexdigest(), _size_of(mime, metadata or {}))


def _name_widget(data: Mapping[str, Any]) -> str:
    text = _as_text("text/plain", data.get("text/plain", "")) or "a widget"
    return f"{text} · a widget of a rank is not live: this is how it was when it was shown"


def _as_text(mime: str, payload: Any) -> str:
    if mime == "application/json" and not isinstance(payload, bytes):
        return json.dumps(payload, indent=2, ensure_ascii=False, default=str)
    if isinstance(payload, list):
        payload = "".join(str(part) for part in payload)
    if isinstance(payload, bytes | bytearray):
        is_image = mime.startswith("image/")
        payload = base64.b64encode(payload) if is_image else payload
        payload = payload.decode("utf-8", "replace")
    text = str(payload)
    if mime == "image/svg+xml":
        return base64.b64encode(text.encode()).decode("ascii")
    return "".join(text.split()) if mime.startswith("image/") else text


def _size_of(mime: str, metadata: Mapping[str, Any]) -> tuple[int, int] | None:
    own = metadata.get(mime)
    given = own if isinstance(own, Mapping) else metadata
    width, height = given.get("width"), given.get("height")
    if isinstance(width, int | float) and isinstance(height, int | float):
        return int(width), int(height)
    return None
