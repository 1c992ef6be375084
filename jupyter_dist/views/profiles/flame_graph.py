"""One flame graph over ranks, in which what differs between them is coloured.

Nested boxes with inline styles, and no script: so a saved notebook shows it, trusted or not, in
light and dark. Colour is never alone: each box that differs says whose time it is.
"""

from collections.abc import Iterator, Sequence

from jupyter_dist.cluster.profiling.call_tree import CallNode, CallTree
from jupyter_dist.model.ranks.stacks import Frame
from jupyter_dist.views.tables.table import plain

MOST_BOXES = 400
"""Smaller calls are left out."""
MOST_DEPTH = 40
LEAST_SHARE = 0.005
"""Of all time, that a call must have to get a box."""
DIFFERS = 0.05
"""Of a rank's time, by which it must differ from the others to be coloured."""
_FULL = 0.4
"""With this difference a colour is as strong as it gets."""
_MORE, _LESS, _SAME = "230,120,0", "59,130,246", "135,135,135"
_BOX = (
    "float:left;box-sizing:border-box;overflow:hidden;white-space:nowrap;"
    "text-overflow:ellipsis;height:18px;line-height:16px;font-size:11px;padding-left:3px;"
    "border-width:1px;border-color:rgba(135,135,135,0.45);border-radius:2px"
)


def flame_html(tree: CallTree) -> str:
    """Return the graph, callers above what they call; widths are time of all ranks together."""
    total_s = tree.root.total_s
    if not total_s:
        return ""
    chosen = _choose(tree.root, total_s)
    boxes = "".join(_node_html(each, tree, total_s, chosen, 1) for each in tree.root.largest())
    label = f"flame graph over {len(tree.ranks)} ranks; orange: one rank spends more time there"
    return (
        f'<div role="img" aria-label="{plain(label)}" style="overflow:auto;width:100%">'
        f'<div style="min-width:560px;overflow:hidden">{boxes}</div></div>{_legend()}'
    )


def describe_difference(node: CallNode, ranks: Sequence[int], usual_s: float) -> str:
    """Return whose time differs from the others', as `rank 2 +38 %`; empty: ranks are alike."""
    index, excess_s = node.excess()
    share = excess_s / usual_s if usual_s else 0.0
    return f"rank {ranks[index]} {share:+.0%}" if abs(share) >= DIFFERS else ""


def name_call(frame: Frame) -> str:
    """Return a call in few words."""
    if not frame.site:
        return frame.function
    place = frame.site.rsplit("/", 1)[-1]
    return place if frame.function == "<module>" else f"{frame.function} {place}"


def _choose(root: CallNode, total_s: float) -> set[int]:
    """Return the identities of the calls that get a box: the longest ones."""
    found = sorted(_walk(root), key=lambda node: -node.total_s)[:MOST_BOXES]
    return {id(node) for node in found if node.total_s >= total_s * LEAST_SHARE}


def _walk(node: CallNode) -> Iterator[CallNode]:
    for inner in node.children.values():
        yield inner
        yield from _walk(inner)


def _node_html(node: CallNode, tree: CallTree, outer_s: float, chosen: set[int], depth: int) -> str:
    if id(node) not in chosen or depth > MOST_DEPTH or node.frame is None:
        return ""
    usual_s = tree.root.total_s / max(1, len(tree.ranks))
    difference = describe_difference(node, tree.ranks, usual_s)
    name = name_call(node.frame)
    words = f"{name} · {difference}" if difference else name
    inner = "".join(
        _node_html(each, tree, node.total_s, chosen, depth + 1) for each in node.largest()
    )
    width = 100 * node.total_s / outer_s
    box = f"{_BOX};width:100%;{_colour(node, usual_s)}"
    title = _title(node, tree, difference)
    return (
        f'<div style="float:left;width:{width:.3f}%;overflow:hidden">'
        f'<div style="{box}" title="{plain(title)}">{plain(words)}</div>{inner}</div>'
    )


def _colour(node: CallNode, usual_s: float) -> str:
    """Return how a box is filled: the more one rank differs, the stronger; waits are dashed."""
    share = node.excess()[1] / usual_s if usual_s else 0.0
    border = "dashed" if node.doing in ("wait", "idle") else "solid"
    tone, strength = _SAME, 0.16
    if abs(share) >= DIFFERS:
        tone = _MORE if share > 0 else _LESS
        strength = 0.25 + 0.5 * min(1.0, abs(share) / _FULL)
    return f"border-style:{border};background-color:rgba({tone},{strength:.2f})"


def _title(node: CallNode, tree: CallTree, difference: str) -> str:
    frame = node.frame
    times = ", ".join(
        f"{rank}: {seconds:.2f} s"
        for rank, seconds in list(zip(tree.ranks, node.seconds, strict=True))[:16]
    )
    more = ", …" if len(tree.ranks) > 16 else ""
    return f"{frame}\n{difference or 'ranks are alike'}\n{times}{more}"


def _legend() -> str:
    def patch(tone: str, words: str, border: str = "solid") -> str:
        style = (
            f"display:inline-block;width:10px;height:10px;margin-right:4px;border-width:1px;"
            f"border-style:{border};border-color:rgba(135,135,135,0.6);"
            f"background-color:rgba({tone},0.6)"
        )
        return f'<span style="margin-right:14px"><span style="{style}"></span>{words}</span>'

    patches = (
        patch(_MORE, "one rank more than the others")
        + patch(_LESS, "one rank less")
        + patch(_SAME, "alike")
        + patch(_SAME, "waits, or has nothing to do", "dashed")
    )
    return f'<div style="opacity:0.8;font-size:90%;padding-top:4px">{patches}</div>'
