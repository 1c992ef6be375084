"""Rich outputs: which representation of a MIME bundle is shown, and when two are the same."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from jupyter_dist.protocol.messages import WIDGET_VIEW
from jupyter_dist.text.lists import name_some
from jupyter_dist.views.outputs.lines import encodable

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


_BASE64 = ("image/png", "image/jpeg", "image/gif", "image/webp")
_IS_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_LOOKED_AT = 1000
"""Characters by which it is told whether something is base64."""
_OF_ANY_TYPE = ("text/plain", "application/json")
_MOST_PIXELS = 100_000
_TOLD_CAP = 4096
_PROBLEM_CAP = 300
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
    """Choose what to show; None for a bundle with nothing in it.

    What cannot be drawn is shown as text with the reason; what a static page does not know is
    named. Where a widget's model cannot be reached, a sentence says so.
    """
    try:
        return _read(data, metadata if isinstance(metadata, Mapping) else {})
    except Exception as problem:  # noqa: BLE001  (data may be anything; a cell must not fail by it)
        return _as_told(data, f"{type(problem).__name__}: {problem}")


def _read(data: Mapping[str, Any], metadata: Mapping[str, Any]) -> RichOutput | None:
    if WIDGET_VIEW in data and not data.get("text/html"):
        data = {"text/plain": _name_widget(data)}
    mime = next((mime for mime in _PREFERRED if data.get(mime) not in (None, "")), None)
    if mime is None:
        unknown = [str(each) for each, value in data.items() if value not in (None, "")]
        return _as_told({}, f"no view draws {name_some(unknown)}") if unknown else None
    if mime not in _OF_ANY_TYPE and not isinstance(data[mime], str | list | bytes | bytearray):
        return _as_told(data, f"the data of {mime} is a {type(data[mime]).__name__}")
    payload = _as_text(mime, data[mime])
    if mime in _BASE64 and not _IS_BASE64.fullmatch(payload[:_LOOKED_AT]):
        return _as_told(data, f"the data of {mime} is not base64")
    plain = _as_text("text/plain", data.get("text/plain", ""))
    return _rich(mime, payload, plain, _size_of(mime, metadata))


def _rich(mime: str, payload: str, plain: str, size: tuple[int, int] | None = None) -> RichOutput:
    digest = hashlib.blake2b(f"{mime}\0{payload}\0".encode("utf-8", "replace"), digest_size=12)
    return RichOutput(mime, payload, plain, digest.hexdigest(), size)


def _as_told(data: object, problem: str) -> RichOutput:
    """Return the plain text of a bundle, and one line why there is no more to be seen."""
    try:
        given = data.get("text/plain") if isinstance(data, Mapping) else data
        plain = given if isinstance(given, str) else "" if given is None else repr(given)
    except Exception as another:  # noqa: BLE001
        plain = f"<{type(data).__name__}, which raised {type(another).__name__}>"
    text = encodable(f"{plain[:_TOLD_CAP]}\n[not drawn: {problem[:_PROBLEM_CAP]}]".lstrip("\n"))
    return _rich("text/plain", text, text)


def _name_widget(data: Mapping[str, Any]) -> str:
    text = _as_text("text/plain", data.get("text/plain", "")) or "a widget"
    return f"{text} · a widget of a rank is not live: this is how it was when it was shown"


def _as_text(mime: str, payload: Any) -> str:
    if mime == "application/json" and not isinstance(payload, bytes):
        return encodable(json.dumps(payload, indent=2, ensure_ascii=False, default=str))
    if isinstance(payload, list):
        payload = "".join(str(part) for part in payload)
    if isinstance(payload, bytes | bytearray):
        is_image = mime.startswith("image/")
        payload = base64.b64encode(payload) if is_image else payload
        payload = payload.decode("utf-8", "replace")
    text = encodable(str(payload))
    if mime == "image/svg+xml":
        return base64.b64encode(text.encode()).decode("ascii")
    return "".join(text.split()) if mime.startswith("image/") else text


def _size_of(mime: str, metadata: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return width and height; None where they are no numbers of pixels."""
    own = metadata.get(mime)
    given = own if isinstance(own, Mapping) else metadata
    width, height = _pixels(given.get("width")), _pixels(given.get("height"))
    return None if width is None or height is None else (width, height)


def _pixels(number: Any) -> int | None:
    is_size = isinstance(number, int | float) and 0 <= number <= _MOST_PIXELS  # NaN is not
    return int(number) if is_size else None
