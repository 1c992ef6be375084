"""A cell's picture as plain text: for terminals, scripts and the plain side of a saved output."""

import re
from collections.abc import Mapping, Sequence

from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.text.plurals import count_of
from jupyter_dist.views.cell.cell_picture import CellPicture, ValueGroup
from jupyter_dist.views.cell.crash_card import crash_lines
from jupyter_dist.views.outputs.ansi import strip_ansi
from jupyter_dist.views.outputs.blocks import Block
from jupyter_dist.views.outputs.grouping import ErrorGroup, Row, label_ranks
from jupyter_dist.views.progress.bar_text import bars_lines

VALUES_CAP = 24 * 1024
TRACEBACK_CAP = 8 * 1024
ERRORS_CAP = 24
"""Groups of errors that are listed."""
_MESSAGE_CAP = 400
_NUMBER = re.compile(
    r"(?:np\.\w+\()?[-+]?(?:\d[\d_]*\.?\d*(?:e[-+]?\d+)?j?|nan|inf)\)?|True|False", re.IGNORECASE
)


def render_text(picture: CellPicture) -> str:
    """Write the whole picture; ends with a newline unless there is nothing to say."""
    lines = [line for block in picture.blocks for line in block_lines(block, picture)]
    lines += bars_lines(picture.bars, has_times=picture.has_times)
    lines += value_lines(picture.values)
    lines += error_lines(picture)
    lines += hidden_lines(picture)
    lines += notes_lines(picture.notes)
    if picture.header:
        lines.append(picture.header)
    return "".join(f"{strip_ansi(line)}\n" for line in lines)


def block_lines(block: Block, picture: CellPicture) -> list[str]:
    """Write the rows of a block, and how many are left out between them."""
    labels = prefixes(block)
    lines = [f"{label}:"] if (label := full_label(block)) else []
    lines += row_texts(block.before, labels)
    if block.left_out:
        lines.append(left_out_sentence(block.left_out, picture))
    return lines + row_texts(block.after, labels)


def row_texts(rows: Sequence[Row], labels: Mapping[tuple[int, ...], str]) -> list[str]:
    """Write rows, each with the prefix that its ranks have among these."""
    return [
        labels[row.ranks] + row.entry.content
        if row.entry.rich is None and "\n" not in row.entry.content
        else row_text(row, labels[row.ranks])
        for row in rows
    ]


def row_text(row: Row, prefix: str) -> str:
    """Write a row with its prefix of ranks before each line."""
    rich = row.entry.rich
    if rich is None:
        return prefix + row.entry.content.replace("\n", f"\n{prefix}")
    return "\n".join(prefix + line for line in cap_text(rich.stand_in, 4096).splitlines() or [""])


def prefixes(block: Block) -> dict[tuple[int, ...], str]:
    """Return the prefix of each set of ranks in a block, all of one width."""
    labels = {ranks: label_ranks(ranks) for ranks in {row.ranks for row in block.rows}}
    width = max(map(len, labels.values()), default=0)
    return {ranks: f"{label:<{width}} " for ranks, label in labels.items()}


def full_label(block: Block) -> str:
    """Name all ranks of a block whose prefix had to be shortened; else return an empty string."""
    labels = {row.ranks for row in block.rows}
    ranks = labels.pop() if len(labels) == 1 else ()
    return name_ranks(ranks) if "…" in label_ranks(ranks) else ""


def left_out_sentence(left_out: int, picture: CellPicture) -> str:
    """Return how many lines are missing here and where to find them."""
    if picture.is_live:
        return f"… {count_of(left_out, 'earlier line')}"
    where = f"; the full log is at {picture.log_hint}" if picture.log_hint else ""
    return f"… {count_of(left_out, 'line')} left out{where}"


def value_lines(values: Sequence[ValueGroup]) -> list[str]:
    """Write the values: one line for each distinct one; numbers that differ share one line."""
    texts = [group.value.stand_in for group in values]
    if len(values) > 1 and all(_NUMBER.fullmatch(text) for text in texts):
        everyone = sorted(rank for group in values for rank in group.ranks)
        listed = "  ".join(
            f"{label_ranks(group.ranks)} {text}" for group, text in zip(values, texts, strict=True)
        )
        return [f"Out{label_ranks(everyone)}: {cap_text(listed, VALUES_CAP)}"]
    cap = max(64, VALUES_CAP // max(1, len(values)))
    lines: list[str] = []
    for group, text in zip(values, texts, strict=True):
        head = f"Out{label_ranks(group.ranks)}:"
        shown = cap_text(text, cap)
        lines += [head, *shown.splitlines()] if "\n" in shown else [f"{head} {shown}"]
    return lines


def notes_lines(notes: Sequence[str]) -> list[str]:
    """Write notes so that they cannot be taken for output, each line of them on its own."""
    return [f"· {line}" for note in notes for line in note.splitlines()]


def hidden_lines(picture: CellPicture) -> list[str]:
    """Return what is not shown, if anything."""
    return [f"… {picture.hidden}"] if picture.hidden else []


def error_lines(picture: CellPicture) -> list[str]:
    """Write what happened to lost ranks, the headings of all groups, and the first traceback."""
    lines = crash_lines(picture.crashes, picture.survivors)
    shows_traceback = picture.raised_rank is None and not picture.crashes
    for index, group in enumerate(picture.errors[:ERRORS_CAP]):
        lines.append(heading_text(group))
        lines += [f"  {text}" for text in other_messages(group)]
        # An error without a traceback of its own says in its place what its heading says.
        is_new = strip_ansi(group.traceback) != f"{group.ename}: {group.messages[0][0]}"
        if index == 0 and shows_traceback and group.traceback and is_new:
            lines += cap_text(group.traceback, TRACEBACK_CAP).splitlines()
    more = more_errors_sentence(picture)
    return [*lines, more] if more else lines


def more_errors_sentence(picture: CellPicture) -> str:
    """Count the groups of errors that are too many to be listed, or return an empty string."""
    more = picture.errors[ERRORS_CAP:]
    if not more:
        return ""
    ranks = {rank for group in more for rank in group.ranks}
    return f"… and {len(more)} more kinds of error on {name_ranks(ranks)}"


def heading_text(group: ErrorGroup) -> str:
    """Write the heading and the first line of the error's own text."""
    message = group.messages[0][0].strip() if group.messages else ""
    first = cap_text(message.splitlines()[0], _MESSAGE_CAP) if message else ""
    return f"{group.heading}: {first}" if first else group.heading


def other_messages(group: ErrorGroup) -> list[str]:
    """Write the error texts that differ from the first one, with their ranks."""
    others = [
        f"{label_ranks(ranks)} {cap_text((text.strip().splitlines() or [''])[0], _MESSAGE_CAP)}"
        for text, ranks in group.messages[1:6]
    ]
    more = len(group.messages) - 6
    return [*others, f"… and {more} other texts"] if more > 0 else others


def cap_text(text: str, cap: int) -> str:
    """Keep the first third and the last two thirds of a text that is longer than `cap`."""
    if len(text) <= cap:
        return text
    first = cap // 3
    gone = len(text) - cap
    return f"{text[:first]}\n… {gone:,} characters left out …\n{text[first - cap :]}"
