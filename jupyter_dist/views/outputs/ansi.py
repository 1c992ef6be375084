"""ANSI escape sequences: colours become inline-styled spans, everything else is dropped."""

import html
import re

_SGR = re.compile(r"\x1b\[([0-9;:]*)m")
_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x1b[\]P^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC, DCS, PM, APC with their text
    r"|\x1b[ -/]*[0-~]?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
_OTHER_CONTROL = re.compile(rf"(?!{_SGR.pattern})(?:{_CONTROL.pattern})")
# Mid tones: see `readable`.
_PALETTE = (
    (107, 107, 107), (217, 67, 59), (46, 150, 68), (176, 133, 0),
    (59, 130, 246), (180, 82, 205), (26, 150, 168), (150, 150, 150),
    (135, 135, 135), (255, 100, 92), (63, 185, 90), (206, 155, 20),
    (106, 160, 255), (205, 120, 228), (43, 180, 200), (170, 170, 170),
)  # fmt: skip
_COLOURS = {
    first + number: (colour_of, _PALETTE[offset + number])
    for first, colour_of, offset in ((30, 38, 0), (40, 48, 0), (90, 38, 8), (100, 48, 8))
    for number in range(8)
}
"""What each code sets: 38 the text, 48 its ground; and to which colour."""
_FLAGS = {
    1: "font-weight:bold",
    2: "opacity:0.7",
    3: "font-style:italic",
    4: "text-decoration:underline",
    7: "background-color:rgba(128,128,128,0.35)",
    9: "text-decoration:line-through",
}
_DIGITS = 4
"""Of a number in a sequence: none that means something has more."""
_FLAGS_OFF = {22: (1, 2), 23: (3,), 24: (4,), 27: (7,), 29: (9,)}


def readable(colour: str) -> str:
    """Return the CSS of a colour for text on any page: mixed with the page's own colour of text.

    No colour has a contrast of 4.5 both on white and on JupyterLab's dark ground.
    """
    return f"color-mix(in srgb,{colour} 60%,currentColor)"


def strip_ansi(text: str) -> str:
    """Drop every escape sequence and control character but tabs and newlines."""
    return text if text.isprintable() else _CONTROL.sub("", text)


def keep_colours(text: str) -> str:
    """Drop cursor movements, titles and the like; keep colours, but end them with the text."""
    kept = _OTHER_CONTROL.sub("", text)
    return f"{kept}\x1b[0m" if "\x1b" in kept and not kept.endswith("\x1b[0m") else kept


def ansi_to_html(text: str) -> str:
    """Escape for HTML, with colours as `<span style="…">`."""
    if "\x1b" not in text:
        return html.escape(strip_ansi(text), quote=False)
    style = _Style()
    pieces: list[str] = []
    parts = _SGR.split(text)
    for index in range(0, len(parts), 2):
        if index:
            style.apply(parts[index - 1])
        plain = html.escape(_CONTROL.sub("", parts[index]), quote=False)
        if plain:
            css = style.css()
            pieces.append(f'<span style="{css}">{plain}</span>' if css else plain)
    return "".join(pieces)


class _Style:
    """What the SGR sequences so far have switched on."""

    def __init__(self) -> None:
        self._flags: set[int] = set()
        self._colours: dict[int, tuple[int, int, int] | None] = {}
        self._is_exact = False
        """Whether the text's colour was given as red, green and blue: then it stays as it is."""

    def apply(self, parameters: str) -> None:
        codes = [int(code[:_DIGITS] or 0) for code in parameters.replace(":", ";").split(";")]
        while codes:
            code = codes.pop(0)
            if code in (38, 48):
                if code == 38:
                    self._is_exact = codes[:1] == [2]
                self._colours[code] = _take_colour(codes)
            else:
                self._apply_one(code)

    def _apply_one(self, code: int) -> None:
        if code == 0:
            self._flags.clear()
            self._colours.clear()
        elif code in _FLAGS:
            self._flags.add(code)
        elif code in _FLAGS_OFF:
            self._flags.difference_update(_FLAGS_OFF[code])
        elif code in (39, 49):
            self._colours.pop(code - 1, None)
        elif code in _COLOURS:
            colour_of, colour = _COLOURS[code]
            self._colours[colour_of] = colour
            self._is_exact = self._is_exact and colour_of != 38

    def css(self) -> str:
        rules = [_FLAGS[flag] for flag in sorted(self._flags)]
        if foreground := self._colours.get(38):
            colour = "rgb({},{},{})".format(*foreground)
            rules.append(f"color:{colour if self._is_exact else readable(colour)}")
        if background := self._colours.get(48):
            rules.append("background-color:rgba({},{},{},0.35)".format(*background))
        return ";".join(rules)


def _take_colour(codes: list[int]) -> tuple[int, int, int] | None:
    """Take the rest of `38;5;N` or `38;2;R;G;B` from the codes."""
    mode = codes.pop(0) if codes else 0
    if mode == 5 and codes:
        return _colour_of_256(min(codes.pop(0), 255))
    if mode == 2 and len(codes) >= 3:
        red, green, blue = (min(codes.pop(0), 255) for _ in range(3))
        return red, green, blue
    return None


def _colour_of_256(index: int) -> tuple[int, int, int]:
    if index < 16:
        return _PALETTE[index]
    if index >= 232:
        grey = 8 + 10 * (index - 232)
        return grey, grey, grey
    levels = (0, 95, 135, 175, 215, 255)
    index -= 16
    return levels[index // 36], levels[index // 6 % 6], levels[index % 6]
