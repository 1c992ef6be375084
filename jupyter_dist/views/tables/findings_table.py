"""What the doctor found, as a table for terminals and as static HTML for notebooks."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from jupyter_dist.cluster.doctor.diagnosis import (
    LEVELS,
    NOTEBOOK,
    SUBJECTS,
    Diagnosis,
    Finding,
    Level,
)
from jupyter_dist.model.hosts.host_names import name_hosts
from jupyter_dist.text.columns import align
from jupyter_dist.text.lists import name_some
from jupyter_dist.text.plurals import count_of
from jupyter_dist.views.outputs.ansi import strip_ansi
from jupyter_dist.views.outputs.grouping import group_by
from jupyter_dist.views.tables.table import (
    COLOURS,
    MARKS,
    TEXT_WIDTH,
    cell_html,
    head_html,
    judged_html,
    page_html,
    plain,
    row_html,
    small_html,
    table_html,
    wrap,
)

MOST_COLUMNS = 8
"""With more hosts those that look alike share a column."""
_CELL_CAP = 24
_NOTEBOOK = "notebook"
_NOUNS: dict[Level, str] = {"bad": "problem", "warning": "warning"}


class _Cell(msgspec.Struct, frozen=True):
    """One subject on the hosts of one column."""

    level: Level | None = None
    """None: it could not be examined."""
    brief: str = ""

    @property
    def text(self) -> str:
        return f"{MARKS[self.level or 'unknown']} {self.brief}".rstrip()


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
    parts = ["\n".join(align(rows))]
    remarks = _remarks(diagnosis)
    if remarks:
        parts.append("\n".join(line for each in remarks for line in _remark_lines(each, width)))
    if diagnosis.versions:
        parts.append("\n".join(align(_version_rows(diagnosis))))
    return strip_ansi("\n\n".join([*parts, _summary(diagnosis)])) + "\n"


def findings_html(diagnosis: Diagnosis) -> str:
    """Write the same as one `<div>` with inline styles only."""
    columns = _columns(diagnosis)
    rows = [row_html(map(head_html, ["", *map(_title, columns)]))]
    rows += [
        row_html([head_html(subject), *map(_marked_cell, cells)])
        for subject, cells in _rows(diagnosis, columns)
    ]
    pieces = [table_html(rows)]
    pieces += [_remark_html(remark) for remark in _remarks(diagnosis)]
    if diagnosis.versions:
        first, *others = _version_rows(diagnosis)
        pieces.append(_version_html(first, others))
    return page_html([*pieces, small_html(_summary(diagnosis))])


# --- what stands in the table ---


def _columns(diagnosis: Diagnosis) -> list[tuple[str, ...]]:
    """Return the hosts of each column: one, or with many hosts all that look alike."""
    if len(diagnosis.hosts) <= MOST_COLUMNS:
        return [(host,) for host in diagnosis.hosts]
    alike = group_by(
        diagnosis.hosts,
        lambda host: tuple(_look(diagnosis, host, subject).level for subject in SUBJECTS),
    )
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
    """Return the cell of hosts that look alike; what only some of them say is left out."""
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
    said = group_by(
        (finding for finding in diagnosis.findings if finding.level != "good"),
        lambda finding: (finding.subject, finding.what, finding.next_step),
    )
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
    alike = group_by(
        (NOTEBOOK, *diagnosis.hosts),
        lambda host: tuple(row.get(host, "") for row in versions.values()),
    )
    alike = {column: hosts for column, hosts in alike.items() if any(column)}
    rows = [["versions", *(_name_column(hosts) for hosts in alike.values())]]
    for index, package in enumerate(versions):
        rows.append([package, *(column[index] or "-" for column in alike)])
    return rows


def _name_column(hosts: Sequence[str]) -> str:
    others = [host for host in hosts if host != NOTEBOOK]
    named = [_NOTEBOOK] if NOTEBOOK in hosts else []
    return name_some([*named, name_hosts(others)] if others else named)


def _summary(diagnosis: Diagnosis) -> str:
    counts = Counter(remark.finding.level for remark in _remarks(diagnosis))
    hosts = count_of(len(diagnosis.hosts), "host")
    told = [
        f"{count_of(counts[level], noun)} ({MARKS[level]})"
        for level, noun in _NOUNS.items()
        if counts[level]
    ]
    return f"{hosts}: {', '.join(told) or 'all is well'}"


# --- as text ---


def _remark_lines(remark: _Remark, width: int) -> list[str]:
    finding = remark.finding
    head = f"{MARKS[finding.level]} {_one_line(remark.head)}"
    lines = wrap(head, "  ", width)
    if finding.next_step:
        lines += wrap(f"  → {_one_line(finding.next_step)}", "    ", width)
    return lines


def _one_line(text: str) -> str:
    return " ".join(text.split())


# --- as HTML ---


def _marked_cell(cell: _Cell) -> str:
    if cell.level is None:
        return cell_html(MARKS["unknown"], "opacity:0.7")
    mark = f'<b style="color:{COLOURS[cell.level]}">{MARKS[cell.level]}</b>'
    return cell_html(f"{mark} {plain(cell.brief)}")


def _remark_html(remark: _Remark) -> str:
    step = plain(_one_line(remark.finding.next_step))
    more = f"<div>→ {step}</div>" if step else ""
    return judged_html(remark.finding.level, plain(_one_line(remark.head)) + more)


def _version_html(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    body = [
        row_html([head_html(package), *(cell_html(plain(text)) for text in versions)])
        for package, *versions in rows
    ]
    return table_html([row_html(map(head_html, head)), *body])
