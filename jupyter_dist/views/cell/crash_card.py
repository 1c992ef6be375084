"""What happened to ranks that are lost: one card each, as text and as static HTML."""

import html
import re
from collections.abc import Hashable, Sequence

import msgspec

from jupyter_dist.model.hosts.host_names import name_hosts
from jupyter_dist.model.hosts.rank import format_ranks, name_ranks
from jupyter_dist.model.ranks.crashes.crash import CrashReport, list_outlooks
from jupyter_dist.model.ranks.records import CallRecord, tell_group
from jupyter_dist.model.ranks.source_files import name_cells
from jupyter_dist.text.plurals import fit
from jupyter_dist.text.sizes import tell_part, tell_size, without_measures
from jupyter_dist.views.outputs.ansi import ansi_to_html, strip_ansi
from jupyter_dist.views.outputs.grouping import group_by

MOST_CARDS = 8
_LINES_OPEN = 6
"""Lines that are shown unfolded."""
_BARS = "▁▂▃▄▅▆▇█"
_MOST_BARS = 30
_ADDRESS = re.compile(r"0x[0-9a-f]+")
# As in the table of findings: mid tones that can be read on a white and on a black page.
_BAD = "rgb(217,67,59)"
_FRAME = f"margin:4px 0;padding-left:6px;border-left:3px solid {_BAD}"
_PRE = '<pre style="margin:0;padding:0;white-space:pre-wrap;font-family:monospace;font-size:93%">'
_FAINT = '<span style="opacity:0.7">'


class _Part(msgspec.Struct, frozen=True):
    """Something that is known: one line beside its label, or several below it."""

    label: str
    lines: tuple[str, ...]
    is_long: bool = False


class _Card(msgspec.Struct, frozen=True):
    """What one card says, in the order in which it says it."""

    title: str
    place: str
    conclusion: str
    parts: tuple[_Part, ...]
    steps: tuple[str, ...]


def crash_lines(crashes: Sequence[CrashReport], survivors: Sequence[int] = ()) -> list[str]:
    """Write the cards line by line; `survivors` are ranks that can go on."""
    cards, more = _cards(crashes, survivors)
    lines = [line for card in cards for line in _card_lines(card)]
    return [*lines, more] if more else lines


def crash_html(crashes: Sequence[CrashReport], survivors: Sequence[int] = ()) -> str:
    """Write the cards with inline styles only; empty without a crash."""
    cards, more = _cards(crashes, survivors)
    return "".join(map(_card_html, cards)) + (f"<div>{more}</div>" if more else "")


# --- what stands on a card ---


def _cards(crashes: Sequence[CrashReport], survivors: Sequence[int]) -> tuple[list[_Card], str]:
    """Make a card for each way to end, and a sentence about those that are too many."""
    groups = list(group_by(sorted(crashes, key=lambda crash: crash.rank), _way).values())
    cards = [_card(group) for group in groups[:MOST_CARDS]]
    if cards:
        steps = _steps(crashes, survivors)
        cards[-1] = msgspec.structs.replace(cards[-1], steps=steps)
    rest = [crash.rank for group in groups[MOST_CARDS:] for crash in group]
    return cards, f"… and {len(rest)} more: {name_ranks(rest)}" if rest else ""


def _way(crash: CrashReport) -> Hashable:
    """Return what is the same for ranks that ended alike, whatever was measured of each."""
    stacks = tuple(_ADDRESS.sub("", line) for line in crash.stacks)
    reason = without_measures(crash.reason)
    return reason, crash.exit_code, crash.signal, crash.stderr, stacks, crash.gpu_errors


def _card(group: Sequence[CrashReport]) -> _Card:
    first = group[0]
    ranks = [crash.rank for crash in group]
    hosts = list(dict.fromkeys(crash.host for crash in group))
    place = [name_hosts(hosts)]
    if len(group) == 1 and first.pid:
        place.append(f"pid {first.pid}")
    place += [text for text in (first.line or first.cell,) if text]
    return _Card(
        title=f"{name_ranks(ranks)} {fit(ranks, 'is', 'are')} lost",
        place=" · ".join(place),
        conclusion=first.reason,
        parts=tuple(part for part in _parts(first, is_one=len(group) == 1) if part.lines),
        steps=(),
    )


def _parts(crash: CrashReport, *, is_one: bool) -> list[_Part]:
    owner = "" if is_one else f" of rank {crash.rank}"
    stacks, stderr = (tuple(map(name_cells, lines)) for lines in (crash.stacks, crash.stderr))
    return [
        _Part(f"memory{owner}", _memory(crash)),
        _Part("kernel's log", crash.kernel),
        _Part("GPU", crash.gpu_errors),
        _Part("last on stderr", stderr, is_long=True),
        _Part(f"last collectives{owner}", tuple(map(_call, crash.calls)), is_long=True),
        _Part("stack", stacks, is_long=True),
    ]


def _memory(crash: CrashReport) -> tuple[str, ...]:
    told = []
    if crash.rss_history:
        first_s, first = crash.rss_history[0]
        sizes = [size for _, size in crash.rss_history]
        last = tell_size(sizes[-1])
        is_news = tell_size(first) != last
        before = f" ({tell_size(first)} {first_s:.0f} s before)" if is_news else ""
        told.append(f"{sparkline(sizes)} {last}{before}")
    if crash.memory_limit_bytes:
        told.append(f"limit of its cgroup {tell_size(crash.memory_limit_bytes)}")
    if crash.address_limit_bytes:
        told.append(f"limit of its address space {tell_size(crash.address_limit_bytes)}")
    if crash.memory_total_bytes and crash.rss_history:
        free = tell_part(crash.memory_available_bytes, crash.memory_total_bytes)
        told.append(f"{free} free on the host")
    if crash.is_shared_memory_full:
        told.append("/dev/shm is full")  # noqa: S108  (a sentence, not a path)
    return (", ".join(told),) if told else ()


def sparkline(sizes: Sequence[int], most: int = _MOST_BARS) -> str:
    """Draw sizes as bars from zero to the largest; of many the largest of each few."""
    top = max(sizes, default=0)
    if top <= 0:
        return ""
    step = -(-len(sizes) // most)
    # Counted from the end, so that the last bar is what it had at last.
    starts = range(len(sizes) % step - step if len(sizes) % step else 0, len(sizes), step)
    peaks = [max(sizes[max(0, start) : start + step]) for start in starts]
    steps = [max(0, peak) * len(_BARS) // top for peak in peaks]
    return "".join(_BARS[min(len(_BARS) - 1, step)] for step in steps)


def _call(call: CallRecord) -> str:
    """Read as `#17 all_reduce(float32[4], sum) at In[3]:7: did not end`."""
    where = f" at {call.site}" if call.site else ""
    if not call.end_ns:
        end = "did not end"
    else:
        took_ms = (call.end_ns - call.start_ns) / 1e6
        took = f"{took_ms:.3g} ms" if took_ms < 999.5 else f"{took_ms / 1000:.1f} s"
        end = f"{'failed after ' if call.has_failed else ''}{took}"
    return f"#{call.sequence} {call}{tell_group(call.group)}{where}: {end}"


def _steps(crashes: Sequence[CrashReport], survivors: Sequence[int]) -> tuple[str, ...]:
    """Return what is done without asking, or else what a person can do."""
    if outlooks := list_outlooks(crashes):
        return outlooks
    it = fit(crashes, "it", "them")
    steps = [f"%dist_heal replaces {it}"]
    if survivors:
        others = fit(survivors, "the other", "the others")
        steps += [
            f"%dist_shrink goes on without {it}",
            f"%%spmd --ranks {format_ranks(survivors)} works with {others}",
        ]
    return tuple(steps)


# --- as text ---


def _card_lines(card: _Card) -> list[str]:
    lines = [f"✗ {card.title}: {card.conclusion}", f"  {card.place}"]
    for part in card.parts:
        if len(part.lines) == 1:
            lines.append(f"  {part.label}: {part.lines[0]}")
            continue
        lines.append(f"  {part.label}:")
        lines += [f"    {line}" for line in part.lines]
    lines += [f"  → {' · '.join(card.steps)}"] if card.steps else []
    return [strip_ansi(line) for line in lines]


# --- as HTML ---


def _card_html(card: _Card) -> str:
    head = f'<b style="color:{_BAD}">✗</b> <b>{_text(card.title)}</b>: {_text(card.conclusion)}'
    pieces = [f"<div>{head}</div>", f"<div>{_FAINT}{_text(card.place)}</span></div>"]
    pieces += [_part_html(part) for part in card.parts]
    if card.steps:
        pieces.append(f"<div>→ {_text(' · '.join(card.steps))}</div>")
    return f'<div style="{_FRAME}">{"".join(pieces)}</div>'


def _part_html(part: _Part) -> str:
    label = f"{_FAINT}{_text(part.label)}</span>"
    if not part.is_long and len(part.lines) == 1:
        return f"<div>{label} {_text(part.lines[0])}</div>"
    body = f"{_PRE}{ansi_to_html(chr(10).join(part.lines))}</pre>"
    if len(part.lines) <= _LINES_OPEN:
        return f"<div>{label}</div>{body}"
    count = f"{_FAINT}{_text(part.label)} ({len(part.lines)} lines)</span>"
    return f"<details><summary>{count}</summary>{body}</details>"


def _text(text: str) -> str:
    return html.escape(strip_ansi(text), quote=False)
