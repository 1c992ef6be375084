"""What the doctor found, as a table for terminals and as static HTML for notebooks."""

import html
import re
import textwrap
from collections.abc import Sequence

import msgspec

from jupyter_dist.model.diagnosis import LEVELS, NOTEBOOK, SUBJECTS, Diagnosis, Finding, Level
from jupyter_dist.model.host_names import name_hosts
from jupyter_dist.model.text import name_some
from jupyter_dist.views.ansi import strip_ansi

MOST_COLUMNS = 8
"""With more hosts those that look alike share a column."""
TEXT_WIDTH = 96
_MARKS: dict[Level, str] = {"good": "✓", "warning": "!", "bad": "✗"}
_UNKNOWN = "·"
_CELL_CAP = 24
_NOTEBOOK = "notebook"
# Mid tones that can be read on a white and on a black page.
_COLOURS: dict[Level, str] = {
    "good": "rgb(46,150,68)",
    "warning": "rgb(176,133,0)",
    "bad": "rgb(217,67,59)",
}
_CELL = "text-align:left;padding:1px 14px 1px 0;border:none;background:none;white-space:nowrap"
_TABLE = '<table style="border-collapse:collapse;border:none;margin:0 0 6px 0;font-size:93%">'
_SMALL = '<div style="opacity:0.7;font-size:90%">'


class _Cell(msgspec.Struct, frozen=True):
    """One subject on the hosts of one column."""

    level: Level | None = None
    """None: nobody could look."""
    brief: str = ""

    @property
    def text(self) -> str:
        mark = _UNKNOWN if self.level is None else _MARKS[self.level]
        return f"{mark} {self.brief}".rstrip()


class _Remark(msgspec.Struct, frozen=True):
    """One thing to say below the table, about all hosts that it is true of."""

    hosts: tuple[str, ...]
    finding: Finding

    @property
    def head(self) -> str:
        where = f"{name_hosts(self.hosts)}: " if any(self.hosts) else ""
        return f"{where}{self.finding.subject}: {self.finding.what.rstrip('.')}."


def findings_text(diagnosis: Diagnosis, width: int = TEXT_WIDTH) -> str:
    """Write the table, what is wrong with the next steps, the versions, and a summary."""
    columns = _columns(diagnosis)
    rows = [["", *map(_title, columns)]]
    rows += [
        [subject, *(cell.text for cell in cells)] for subject, cells in _rows(diagnosis, columns)
    ]
    parts = [_align(rows)]
    remarks = _remarks(diagnosis)
    if remarks:
        parts.append("\n".join(line for each in remarks for line in _remark_lines(each, width)))
    if diagnosis.versions:
        parts.append(_align(_version_rows(diagnosis)))
    return strip_ansi("\n\n".join([*parts, _summary(diagnosis)])) + "\n"


def findings_bundle(diagnosis: Diagnosis) -> dict[str, str]:
    """Give the MIME bundle for a notebook: static HTML and plain text."""
    return {"text/html": findings_html(diagnosis), "text/plain": findings_text(diagnosis)}


def findings_html(diagnosis: Diagnosis) -> str:
    """Write the same as one `<div>` with inline styles only."""
    columns = _columns(diagnosis)
    body = "".join(
        f"<tr>{_cell(subject, 'th')}{''.join(map(_marked_cell, cells))}</tr>"
        for subject, cells in _rows(diagnosis, columns)
    )
    head = "".join(_cell(_title(column), "th") for column in columns)
    pieces = [f"{_TABLE}<tr>{_cell('', 'th')}{head}</tr>{body}</table>"]
    pieces += [_remark_html(remark) for remark in _remarks(diagnosis)]
    if diagnosis.versions:
        first, *others = _version_rows(diagnosis)
        pieces.append(_version_html(first, others))
    pieces.append(f"{_SMALL}{html.escape(_summary(diagnosis))}</div>")
    return f'<div style="padding-left:8px">{"".join(pieces)}</div>'


# --- what stands in the table ---


def _columns(diagnosis: Diagnosis) -> list[tuple[str, ...]]:
    """Give the hosts of each column: one, or with many hosts all that look alike."""
    if len(diagnosis.hosts) <= MOST_COLUMNS:
        return [(host,) for host in diagnosis.hosts]
    alike: dict[tuple[Level | None, ...], list[str]] = {}
    for host in diagnosis.hosts:
        look = tuple(_look(diagnosis, host, subject).level for subject in SUBJECTS)
        alike.setdefault(look, []).append(host)
    return [tuple(hosts) for hosts in alike.values()]


def _rows(
    diagnosis: Diagnosis, columns: Sequence[tuple[str, ...]]
) -> list[tuple[str, list[_Cell]]]:
    rows = []
    for subject in SUBJECTS:
        cells = [_common(diagnosis, hosts, subject) for hosts in columns]
        if any(cell.level for cell in cells):
            rows.append((subject, cells))
    return rows


def _common(diagnosis: Diagnosis, hosts: Sequence[str], subject: str) -> _Cell:
    """Give the cell of hosts that look alike; what only some of them say is left out."""
    looks = [_look(diagnosis, host, subject) for host in hosts]
    briefs = {look.brief for look in looks}
    return _Cell(looks[0].level, briefs.pop() if len(briefs) == 1 else "")


def _look(diagnosis: Diagnosis, host: str, subject: str) -> _Cell:
    found = diagnosis.of(host, subject)
    if not found:
        return _Cell()
    brief = found[0].brief
    return _Cell(found[0].level, brief if len(brief) <= _CELL_CAP else f"{brief[:_CELL_CAP]}…")


def _title(hosts: Sequence[str]) -> str:
    return name_hosts(hosts) if len(hosts) <= 2 else f"{len(hosts)} hosts"


def _remarks(diagnosis: Diagnosis) -> list[_Remark]:
    """Gather what is not good, the worst first, with all hosts that it is said about."""
    said: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in diagnosis.findings:
        if finding.level != "good":
            said.setdefault((finding.subject, finding.what, finding.next_step), []).append(finding)
    remarks = [_Remark(tuple(each.host for each in same), same[0]) for same in said.values()]
    order = {host: index for index, host in enumerate(diagnosis.hosts)}
    return sorted(
        remarks,
        key=lambda each: (
            -LEVELS.index(each.finding.level),
            order.get(each.hosts[0], -1),
            SUBJECTS.index(each.finding.subject),
        ),
    )


def _version_rows(diagnosis: Diagnosis) -> list[list[str]]:
    """Put the versions side by side; hosts with the same ones share a column."""
    versions = diagnosis.versions
    alike: dict[tuple[str, ...], list[str]] = {}
    for host in (NOTEBOOK, *diagnosis.hosts):
        column = tuple(row.get(host, "") for row in versions.values())
        if any(column):
            alike.setdefault(column, []).append(host)
    rows = [["versions", *(_name_column(hosts) for hosts in alike.values())]]
    for index, package in enumerate(versions):
        rows.append([package, *(column[index] or "-" for column in alike)])
    return rows


def _name_column(hosts: Sequence[str]) -> str:
    others = [host for host in hosts if host != NOTEBOOK]
    named = [_NOTEBOOK] if NOTEBOOK in hosts else []
    return name_some([*named, name_hosts(others)] if others else named)


def _summary(diagnosis: Diagnosis) -> str:
    count = {
        level: len([r for r in _remarks(diagnosis) if r.finding.level == level]) for level in LEVELS
    }
    problems = f"{count['bad']} problem{'s' if count['bad'] != 1 else ''} (✗)"
    warnings = f"{count['warning']} warning{'s' if count['warning'] != 1 else ''} (!)"
    hosts = f"{len(diagnosis.hosts)} host{'s' if len(diagnosis.hosts) != 1 else ''}"
    told = [
        text for text, number in ((problems, count["bad"]), (warnings, count["warning"])) if number
    ]
    return f"{hosts}: {', '.join(told) or 'all is well'}"


# --- as text ---


def _align(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _remark_lines(remark: _Remark, width: int) -> list[str]:
    finding = remark.finding
    head = f"{_MARKS[finding.level]} {_one_line(remark.head)}"
    lines = _wrap(head, "  ", width)
    if finding.next_step:
        lines += _wrap(f"  → {_one_line(finding.next_step)}", "    ", width)
    return lines


def _wrap(text: str, indent: str, width: int) -> list[str]:
    return textwrap.wrap(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


# --- as HTML ---


def _cell(text: str, tag: str, style: str = "") -> str:
    weight = "font-weight:normal;opacity:0.7" if tag == "th" else style
    return f'<{tag} style="{_CELL};{weight}">{html.escape(strip_ansi(text))}</{tag}>'


def _marked_cell(cell: _Cell) -> str:
    if cell.level is None:
        return _cell(_UNKNOWN, "td", "opacity:0.5")
    mark = f'<b style="color:{_COLOURS[cell.level]}">{_MARKS[cell.level]}</b>'
    brief = html.escape(strip_ansi(cell.brief))
    return f'<td style="{_CELL}">{mark} {brief}</td>'


def _remark_html(remark: _Remark) -> str:
    finding = remark.finding
    colour = _COLOURS[finding.level]
    mark = f'<b style="color:{colour}">{_MARKS[finding.level]}</b>'
    head = html.escape(strip_ansi(_one_line(remark.head)))
    step = html.escape(strip_ansi(_one_line(finding.next_step)))
    frame = f"margin:0 0 4px 0;padding-left:6px;border-left:3px solid {colour}"
    return f'<div style="{frame}">{mark} {head}{f"<div>→ {step}</div>" if step else ""}</div>'


def _version_html(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    first = "".join(_cell(text, "th") for text in head)
    body = "".join(
        f"<tr>{_cell(row[0], 'th')}{''.join(_cell(text, 'td') for text in row[1:])}</tr>"
        for row in rows
    )
    return f"{_TABLE}<tr>{first}</tr>{body}</table>"
