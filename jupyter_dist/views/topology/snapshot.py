"""A topology that stands still: plain text, and HTML that survives in an untrusted notebook.

JupyterLab drops `<style>`, `<svg>` and `<script>` from outputs it does not trust, and a widget's
output is dead without its kernel. So the HTML here is tables with inline style, and it says of
itself that it is not live.
"""

from collections import Counter
from html import escape

from jupyter_dist.model.hosts.rank import format_ranks, name_ranks
from jupyter_dist.model.hosts.topology import EngineView, GpuView, HostView, Topology
from jupyter_dist.model.ranks.records import tell_group
from jupyter_dist.text.columns import align
from jupyter_dist.text.plurals import count_of, fit
from jupyter_dist.text.sizes import tell_part, tell_size
from jupyter_dist.views.topology.machine_text import (
    OLD_SAMPLE_S,
    device_words,
    free_gpus,
    host_warnings,
    link_words,
    nic_words,
)
from jupyter_dist.views.topology.unmeasured import STARTED

TABLE_LIMIT = 64
"""Above so many ranks a host is one line, and only ranks that need attention get their own."""

GLYPHS = {
    STARTED: "●",
    "starting": "◌",
    "idle": "○",
    "busy": "▶",
    "collective": "⇄",
    "hung": "⏳",
    "lost": "✕",
    "left": "·",
}
_WORDS = {"collective": "in collective", "hung": "hung?"}
# Of edges, after Okabe-Ito: each has a contrast of 3 on white and on JupyterLab's dark ground.
_WARNING = "#b87a00"
_COLOURS = {
    "starting": "#3a94cb",
    "idle": "#8f8f8f",
    "busy": "#0a7fc4",
    "collective": "#cc79a7",
    "hung": _WARNING,
    "lost": "#d55e00",
    "left": "#8f8f8f",
}
_COLUMNS = ("rank", "state", "doing", "CPU", "memory", "device", "heartbeat")
_NUMBERS = ("rank", "CPU", "memory")
_UNKNOWN = "-"
_FAINT = " font-weight: normal; opacity: 0.7;"
_EDGE = " border-left: 4px solid {};"


def topology_text(topology: Topology, across: str | None = None) -> str:
    """Write the cluster as a table for a terminal.

    Where axes are named, the ranks stand in a grid by them first, with one axis `across`: None is
    the last one, and none at all is empty.
    """
    if across is None:
        across = next(iter(topology.axes.names[-1:]), "")
    lines = [f"cluster {topology.cluster} · {_after_name(topology)}"]
    if topology.note:
        lines.append(f"! {topology.note}")
    if grid := _grid(topology, across):
        lines += ["", *(f"  {line}" for line in align(grid))]
    is_long = len(topology.engines) > TABLE_LIMIT
    rows = [
        _row(engine, host)
        for host in topology.hosts
        for engine in _worth_a_row(host.engines, is_long)
    ]
    columns = _told_columns(rows)
    right = [place for place, i in enumerate(columns) if _COLUMNS[i] in _NUMBERS]
    heads, *aligned = align([[row[i] for i in columns] for row in (_COLUMNS, *rows)], right=right)
    for host in topology.hosts:
        lines += ["", _host_line(host)]
        lines += [f"  ! {warning}" for warning in host_warnings(host)]
        if is_long:
            lines.append(f"  {_members(host)}")
        if count := len(_worth_a_row(host.engines, is_long)):
            lines += [f"  {line}" for line in (heads, *aligned[:count])]
            del aligned[:count]
        lines += [f"  {line}" for line in _about_host(host)]
    return "\n".join(lines)


def when_taken(taken_at: str = "", end: str = "") -> str:
    """Say that a picture is not live, of when it is, and how its cluster has ended since then."""
    when = f"Snapshot of {taken_at}, not live" if taken_at else "Snapshot, not live"
    return f"{when}: the cluster is {end}." if end else f"{when}."


def topology_html(topology: Topology, when: str = "", across: str = "") -> str:
    """Draw the cluster as static HTML with inline style only; `when` is what `when_taken` says.

    With an axis that goes `across`, the ranks stand in a grid by their axes first.
    """
    is_long = len(topology.engines) > TABLE_LIMIT
    parts = [
        '<div style="margin: 4px 0 4px 8px;">',
        f"<div><b>{escape(topology.cluster)}</b> · {escape(_after_name(topology))}</div>",
    ]
    if topology.note:
        parts.append(
            f'<div style="margin: 6px 0; padding: 4px 10px;{_EDGE.format(_WARNING)}">'
            f"<b>{escape(topology.note)}</b></div>"
        )
    if grid := _grid(topology, across):
        heads, *rows = [[escape(cell) for cell in row] for row in grid]
        cells = ["".join(_cell(head, _FAINT, padding=2, tag="th") for head in heads)]
        cells += ["".join(_cell(cell, padding=2) for cell in row) for row in rows]
        parts.append(f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>")
    parts.append('<table style="margin: 6px 0; text-align: left;">')
    columns = _told_columns(
        [_row(engine, host) for host in topology.hosts for engine in host.engines]
    )
    for host in topology.hosts:
        parts += _host_rows(host, is_long, columns)
    parts += [
        "</table>",
        f'<div style="opacity: 0.7;">{escape(when or when_taken())}</div>',
        "</div>",
    ]
    return "".join(parts)


def _after_name(topology: Topology) -> str:
    facts = [topology.state]
    if topology.generation:
        facts.append(f"generation {topology.generation}")
    return " · ".join([*facts, *_counts(topology.engines)])


def _counts(engines: tuple[EngineView, ...]) -> list[str]:
    counts = Counter(engine.state for engine in engines)
    order = [*GLYPHS, *(state for state in counts if state not in GLYPHS)]
    return [f"{counts[state]} {_WORDS.get(state, state)}" for state in order if counts[state]]


def _grid(topology: Topology, across: str) -> list[list[str]]:
    """Return rank and state by axes, with the hosts of each row; nothing without that axis."""
    axes = topology.axes
    found = {each.rank: (each, host.name) for host in topology.hosts for each in host.engines}
    if across not in axes.names or not axes.has_all(found):
        return []
    is_long = len(found) > TABLE_LIMIT

    def tell(rank: int) -> str:
        state = found[rank][0].state
        word = "" if is_long else f" {_WORDS.get(state, state)}"
        return f"{rank} {GLYPHS.get(state, '?')}{word}"

    heads, *rows = axes.table(across, tell)
    places = axes.table(across, lambda rank: found[rank][1])[1:]
    first = len(axes.names) - 1
    hosts = [", ".join(dict.fromkeys(row[first:])) for row in places]
    return [[*heads, "on"], *([*row, names] for row, names in zip(rows, hosts, strict=True))]


def _worth_a_row(engines: tuple[EngineView, ...], is_long: bool) -> list[EngineView]:
    return [each for each in engines if not is_long or each.state in ("hung", "lost")]


def _members(host: HostView) -> str:
    return ": ".join(
        [name_ranks(engine.rank for engine in host.engines), ", ".join(_counts(host.engines))]
    )


def _host_line(host: HostView) -> str:
    if host.state != "up":
        return f"{host.name} · {host.state}"
    facts = [host.name]
    if host.memory_total_bytes and not host.memory_used_bytes:
        facts += [count_of(host.cpu_count, "core")] if host.cpu_count else []
        facts.append(f"memory {tell_size(host.memory_total_bytes)}")
    elif host.memory_total_bytes:
        cores = f" of {host.cpu_count} cores" if host.cpu_count else ""
        memory = tell_part(host.memory_used_bytes, host.memory_total_bytes)
        facts += [f"CPU {host.cpu_percent:.0f}%{cores}", f"memory {memory}"]
    if host.gpus:
        names = " / ".join(sorted({gpu.name or "unnamed" for gpu in host.gpus}))
        facts.append(f"{count_of(len(host.gpus), 'GPU')} {names}")
    if host.sampled_s > OLD_SAMPLE_S:
        facts.append(f"numbers are {_seconds(host.sampled_s)} old")
    return " · ".join(facts)


def _about_host(host: HostView) -> list[str]:
    """Return what joins the GPUs of a host and what joins it to others, a line for each."""
    free = free_gpus(host)
    told = {
        "links": link_words(host.links),
        "network": nic_words(host.nics),
        "without a rank": f"GPU{fit(free, '', 's')} {format_ranks(free)}" if free else "",
    }
    return [f"{title}: {text}" for title, text in told.items() if text]


def _row(engine: EngineView, host: HostView) -> tuple[str, ...]:
    has_numbers = engine.state not in (STARTED, "starting", "lost", "left")
    has_beat = has_numbers and engine.pid
    return (
        str(engine.rank),
        f"{GLYPHS.get(engine.state, '?')} {_WORDS.get(engine.state, engine.state)}",
        _doing(engine),
        f"{engine.cpu_percent:.0f}%" if has_numbers else _UNKNOWN,
        _bytes(engine.rss_bytes) if has_numbers else _UNKNOWN,
        _device(engine, host.gpus) if device_words(engine) else _UNKNOWN,
        f"{_seconds(engine.beat_age_s)} ago" if has_beat else _UNKNOWN,
    )


def _device(engine: EngineView, gpus: tuple[GpuView, ...]) -> str:
    """Name the GPUs of a rank, with the numbers of the only one, and what it uses itself."""
    words = device_words(engine)
    own = [gpu for gpu in gpus if gpu.index in (*engine.devices, engine.device)]
    if len(own) == 1 and own[0].memory_total_bytes:
        memory = tell_part(own[0].memory_used_bytes, own[0].memory_total_bytes)
        words = f"{words} {own[0].utilisation_percent:.0f}%, {memory}"
    mine = engine.gpu_memory_bytes
    return f"{words}, {_bytes(mine)} its own" if mine else words


def _doing(engine: EngineView) -> str:
    facts = []
    if engine.cell:
        facts.append(f"{engine.cell} for {_seconds(engine.busy_s)}")
    inside = engine.collective
    if inside and inside.is_running:
        site = f" at {inside.site}" if inside.site else ""
        what = f"{inside.operation} #{inside.sequence}{tell_group(inside.group)}"
        facts.append(f"{what}{site} for {_seconds(inside.seconds)}")
    if engine.reason:
        facts.append(engine.reason)
    return "; ".join(facts) or _UNKNOWN


def _told_columns(rows: list[tuple[str, ...]]) -> list[int]:
    """Choose rank, state, and every column in which some row says something."""
    return [i for i in range(len(_COLUMNS)) if i < 2 or any(row[i] != _UNKNOWN for row in rows)]


def _host_rows(host: HostView, is_long: bool, columns: list[int]) -> list[str]:
    wide = len(columns)
    rows = [_cell(escape(_host_line(host)), tag="th", wide=wide)]
    rows += [
        _cell(f"<b>{escape(words)}</b>", _EDGE.format(_WARNING), wide=wide)
        for words in host_warnings(host)
    ]
    if is_long:
        rows.append(_cell(escape(_members(host)), wide=wide))
    engines = _worth_a_row(host.engines, is_long)
    if engines:
        rows.append("".join(_cell(_COLUMNS[i], _FAINT, padding=2, tag="th") for i in columns))
    for engine in engines:
        edge = _EDGE.format(_COLOURS.get(engine.state, "#8f8f8f"))
        first, state, *others = [escape(_row(engine, host)[i]) for i in columns]
        cells = [_cell(f"<b>{first}</b>", edge, padding=2), _cell(state, " white-space: nowrap;")]
        rows.append("".join([*cells, *map(_cell, others)]))
    rows += [_cell(escape(line), _FAINT, padding=2, wide=wide) for line in _about_host(host)]
    return [f"<tr>{cells}</tr>" for cells in rows]


def _cell(markup: str, look: str = "", *, padding: int = 3, tag: str = "td", wide: int = 0) -> str:
    span = f' colspan="{wide}"' if wide else ""
    style = f"text-align: left; padding: {padding}px 10px;{look}"
    return f'<{tag}{span} style="{style}">{markup}</{tag}>'


def _seconds(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _bytes(size: int) -> str:
    return tell_size(size) if size else _UNKNOWN
