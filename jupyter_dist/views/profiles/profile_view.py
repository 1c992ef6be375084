"""A profile as text and as HTML: the sentence, the ranks in a table, the flame graph."""

from collections.abc import Iterable, Sequence

from jupyter_dist.cluster.profiling.call_tree import CallNode
from jupyter_dist.cluster.profiling.profile import Profile
from jupyter_dist.cluster.profiling.rank_times import RankTime
from jupyter_dist.text.columns import align, without_empty
from jupyter_dist.text.sizes import tell_size
from jupyter_dist.views.profiles.flame_graph import describe_difference, flame_html, name_call
from jupyter_dist.views.tables.table import (
    cell_html,
    judged_html,
    page_html,
    plain,
    row_html,
    small_html,
    table_html,
)

MOST_ROWS = 64
"""Ranks in the table, those that wait least first where there are more."""
_MOST_LINES = 12
_LEAST_SHARE = 0.03
_HEADS = ("rank", "host", "work", "waits for others", "exchange", "idle", "most work at")
_MOST_CODE = 48
_MOST_SITES = 5


def profile_text(profile: Profile) -> str:
    """Write who is slow, the ranks, and the longest calls."""
    lines = [_verdict(profile), *profile.notes, ""]
    if profile.kind == "memory":
        return "\n".join([*lines, *align(_memory_rows(profile))]) + "\n"
    lines += align(without_empty([_HEADS, *_rows(profile)]))
    if profile.samples:
        lines += ["", *_tree_lines(profile)]
    return "\n".join(lines) + "\n"


def profile_html(profile: Profile) -> str:
    """Write the same as one `<div>` with inline styles only, with the flame graph."""
    pieces = [
        judged_html("warning" if profile.slowness.ranks else "good", plain(_verdict(profile)))
    ]
    pieces += [small_html(note) for note in profile.notes]
    if profile.kind == "memory":
        pieces.append(_table(_memory_rows(profile)))
    else:
        pieces.append(_table(without_empty([_HEADS, *_rows(profile)])))
        pieces.append(flame_html(profile.tree))
    return page_html(pieces)


def _verdict(profile: Profile) -> str:
    seconds = f"{profile.window.seconds:.1f} s"
    if profile.kind == "memory":
        return f"memory allocated in {seconds} and still held"
    return f"{profile.slowness} ({seconds})"


def _rows(profile: Profile) -> list[tuple[str, ...]]:
    whole_s, hosts = profile.window.seconds, profile.hosts
    are_many = len(set(hosts.values())) > 1
    shown = sorted(profile.times.values(), key=lambda each: each.wait_s)[:MOST_ROWS]
    return [
        (
            f"{'▶ ' if own.rank in profile.slowness.ranks else ''}{own.rank}",
            hosts.get(own.rank, "") if are_many else "",
            _share(own.work_s, whole_s),
            _share(own.wait_s, whole_s),
            _share(own.exchange_s, whole_s),
            _share(own.idle_s, whole_s),
            _busiest(own, whole_s),
        )
        for own in sorted(shown, key=lambda each: each.rank)
    ]


def _share(seconds: float, whole_s: float) -> str:
    return f"{seconds / whole_s:.0%}" if whole_s else "?"


def _busiest(own: RankTime, whole_s: float) -> str:
    if not own.places:
        return "" if own.is_sampled else "not known"
    place, seconds = max(own.places.items(), key=lambda each: each[1])
    code = place.code if len(place.code) <= _MOST_CODE else f"{place.code[:_MOST_CODE]}…"
    return f"{name_call(place)} {_share(seconds, whole_s)}{f': {code}' if code else ''}"


def _memory_rows(profile: Profile) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("rank", "held", "in blocks", "allocated at", "")]
    for rank, own in profile.ranks.items():
        gpu = profile.gpu_bytes.get(rank, 0)
        on_gpu = f"its process has {tell_size(gpu)} on GPUs" if gpu else ""
        rows.append((str(rank), tell_size(own.held_bytes), "", "all lines", on_gpu))
        rows += [
            ("", tell_size(each.nbytes), str(each.count), each.site, each.code[:_MOST_CODE])
            for each in own.allocations[:_MOST_SITES]
        ]
    return rows


def _tree_lines(profile: Profile) -> Iterable[str]:
    """Write the longest calls with what they are inside of, as far as they fit."""
    tree = profile.tree
    usual_s = tree.root.total_s / max(1, len(tree.ranks))
    lines: list[str] = []

    def add(node: CallNode, depth: int) -> None:
        share = node.total_s / tree.root.total_s if tree.root.total_s else 0.0
        if share < _LEAST_SHARE or len(lines) >= _MOST_LINES or node.frame is None:
            return
        difference = describe_difference(node, tree.ranks, usual_s)
        told = f"{share:4.0%} {'  ' * depth}{name_call(node.frame)}"
        lines.append(f"{told}  ({difference})" if difference else told)
        for inner in node.largest():
            add(inner, depth + 1)

    for each in tree.root.largest():
        add(each, 0)
    return lines


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *others = rows
    told = [row_html(cell_html(f"<b>{plain(each)}</b>") for each in head)]
    told += [row_html(cell_html(plain(each)) for each in row) for row in others]
    return table_html(told)
