"""What ranks are doing: stacks of calls, those of ranks that do the same told once."""

from collections.abc import Mapping, Sequence

from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.model.ranks.stack_reading import StackGroup, group_stacks
from jupyter_dist.model.ranks.stacks import Frame, RankStacks
from jupyter_dist.text.lists import name_some
from jupyter_dist.views.outputs.ansi import strip_ansi
from jupyter_dist.views.tables.table import page_html, plain

MOST_FRAMES = 30
"""Of a deeper stack the outer calls are left out."""
_NOTHING = "No rank has been looked at."
_SMALL = "opacity:0.7;font-size:90%"
_CODE = "margin:0 0 6px 14px;padding:0;background:none;border:none;white-space:pre-wrap"
_INNERMOST = "▶"


def stacks_text(stacks: Mapping[int, RankStacks]) -> str:
    """Write each group of ranks with its stack, the innermost call last."""
    parts = [_group_text(group) for group in group_stacks(stacks)]
    return strip_ansi("\n".join(parts) or _NOTHING) + "\n"


def stacks_html(stacks: Mapping[int, RankStacks]) -> str:
    """Write the same as one `<div>` with inline styles only."""
    pieces = [_group_html(group) for group in group_stacks(stacks)]
    return page_html(pieces or [_NOTHING])


# --- what is told ---


def _title(group: StackGroup) -> str:
    words = f" ({group.words})" if group.words else ""
    return f"{name_ranks(group.ranks)}{words}"


def _thread_title(group: StackGroup, owners: Sequence[int], name: str) -> str:
    whose = "" if tuple(owners) == group.ranks else f" of {name_ranks(owners)}"
    return f"thread {name}{whose}"


def _lines(frames: Sequence[Frame]) -> list[str]:
    """Write calls one below the other, the innermost one marked."""
    shown = frames[-MOST_FRAMES:]
    left_out = len(frames) - len(shown)
    lines = [f"  … {left_out} outer calls"] if left_out else []
    lines += [f"  {frame}" for frame in shown[:-1]]
    return [*lines, f"{_INNERMOST} {shown[-1]}"] if shown else lines


# --- as text ---


def _group_text(group: StackGroup) -> str:
    lines = [_title(group), *_lines(group.frames)]
    for owners, thread in group.threads:
        lines.append(f"  {_thread_title(group, owners, thread.name)}")
        lines += [f"  {line}" for line in _lines(thread.frames)]
    return "\n".join(lines)


# --- as HTML ---


def _group_html(group: StackGroup) -> str:
    words = f' <span style="{_SMALL}">{plain(group.words)}</span>' if group.words else ""
    pieces = [f"<div><b>{plain(name_ranks(group.ranks))}</b>{words}</div>"]
    pieces.append(_stack_html(group.frames))
    if group.threads:
        names = name_some([thread.name for _owners, thread in group.threads])
        inner = "".join(
            f"<div>{plain(_thread_title(group, owners, thread.name))}</div>"
            f"{_stack_html(thread.frames)}"
            for owners, thread in group.threads
        )
        summary = f'<summary style="{_SMALL}">other threads: {plain(names)}</summary>'
        pieces.append(f'<details style="margin-left:14px">{summary}{inner}</details>')
    return "".join(pieces)


def _stack_html(frames: Sequence[Frame]) -> str:
    return f'<pre style="{_CODE}">{plain(chr(10).join(_lines(frames)))}</pre>' if frames else ""
