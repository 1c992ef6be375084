"""From fragments of a stream to lines, as a terminal would show them."""

LINE_CAP = 4096
"""Characters of one line that are kept."""
_MARK = "… ({:,} more characters)"


class LineAssembler:
    """Cut a stream into lines; carriage returns and backspaces overwrite, long lines are capped."""

    def __init__(self) -> None:
        self._partial = ""
        self._lost = 0

    @property
    def partial(self) -> str:
        """The line that has not ended yet, as it looks now."""
        return _overwrite(self._partial) if self._partial else ""

    @property
    def has_partial(self) -> bool:
        """Something has been fed since the last line end."""
        return bool(self._partial)

    def feed(self, text: str) -> list[str]:
        """Take in a fragment; return the lines that it finished."""
        lines = (self._partial + text).split("\n")
        rest = lines.pop()
        if lines:
            if _moves(text) or _moves(self._partial):
                lines = [_overwrite(line) for line in lines]
            lost, self._lost = self._lost, 0
            first = _cut(lines[0], lost)
            lines = [_cut(line) if len(line) > LINE_CAP else line for line in lines]
            lines[0] = first
        self._partial = rest
        if len(rest) > LINE_CAP or "\r" in rest:
            self._shorten()
        return lines

    def flush(self) -> list[str]:
        """End the partial line, if there is something to see of it."""
        line = _cut(self.partial, self._lost)
        self._partial = ""
        self._lost = 0
        return [line] if line else []

    def _shorten(self) -> None:
        # The text since the last carriage return stays apart: what comes may go on with it.
        before, mark, current = self._partial.rpartition("\r")
        if mark:
            self._lost = 0
            before = _overwrite(before)[:LINE_CAP]
        if len(current) > LINE_CAP:
            self._lost += len(current) - LINE_CAP
            current = current[:LINE_CAP]
        self._partial = before + mark + current


def _cut(line: str, already_lost: int = 0) -> str:
    lost = max(0, len(line) - LINE_CAP) + already_lost
    return f"{line[:LINE_CAP]}{_MARK.format(lost)}" if lost else line


def _moves(text: str) -> bool:
    return "\r" in text or "\b" in text


def _overwrite(line: str) -> str:
    """Show what is left of a line after its carriage returns and backspaces."""
    if not _moves(line):
        return line
    shown = ""
    for segment in line.split("\r"):
        written = _backspace(segment) if "\b" in segment else segment
        if "\x1b" in written or "\x1b" in shown:
            shown = written or shown
        else:
            shown = written + shown[len(written) :]
    return shown.rstrip()


def _backspace(segment: str) -> str:
    kept: list[str] = []
    for character in segment:
        if character != "\b":
            kept.append(character)
        elif kept:
            kept.pop()
    return "".join(kept)


def encodable(text: str) -> str:
    """Return text that UTF-8 can carry: lone surrogates as backslash escapes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text
