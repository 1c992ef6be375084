"""What a cell has said, for an agent that asks again and again."""

import time

from jupyter_dist.cluster.cells.followed_cells import Replay, read_label
from jupyter_dist.cluster.cluster import Cluster
from jupyter_dist.cluster.spec.checks import read_ranks
from jupyter_dist.mcp.answers import answer, clean, data
from jupyter_dist.mcp.errands import ERRANDS
from jupyter_dist.mcp.visits import visit
from jupyter_dist.protocol.messages import RankFinished, RankOutput
from jupyter_dist.text.sizes import tell_size
from jupyter_dist.views.cell.cell_picture import CellRecord
from jupyter_dist.views.cell.output_text import render_text


def tell_output(cluster: str, cell: str, since: int, ranks: str) -> str:
    """Return what a cell has said since a mark (below 0: the newest), its state and a mark."""
    with visit(cluster) as seen:
        label = read_label(cell or None)
        waiting = tell_waiting(seen, label)
        if waiting:
            return waiting
        replay = seen.replay(label or None, since=max(0, since))
        wanted = read_ranks(ranks or None, seen.world_size)
        name = seen.name
    kept = replay.cell
    record = CellRecord(len(kept.ranks), None if wanted is None else frozenset(wanted))
    _take(record, replay)
    said = render_text(record.final_picture())
    head = f"{kept.label} on cluster {name}: {_tell_state(replay, record, since)}"
    lost = f"{tell_size(replay.omitted_bytes)} of older output are kept no longer"
    return answer(
        head,
        f"sent by {clean(kept.by) if kept.by else 'a person'}; mark {replay.mark}",
        lost if replay.omitted_bytes else "",
        data(said, more=": ask for `ranks`, as 0") if said else "nothing new was said",
    )


def tell_waiting(cluster: Cluster, label: str) -> str:
    """Return that a cell of this program has not begun; empty: it has, or is not known here."""
    found = ERRANDS.find(cluster.name, label)
    if found is None or found[0].is_done:
        return ""
    if any(kept.label == label for kept in cluster.outputs()):
        return ""
    why = clean(found[1].note) or "its ranks are busy"
    return answer(f"{label} on cluster {cluster.name} waits", why)


def _take(record: CellRecord, replay: Replay) -> None:
    for event in replay.events:
        if isinstance(event, RankOutput):
            record.take_output(event.ranks, event.outputs)
        elif isinstance(event, RankFinished):
            record.take_finished(event)
        elif text := getattr(event, "text", ""):
            record.take_note(text)


def _tell_state(replay: Replay, record: CellRecord, since: int) -> str:
    """Return whether a cell runs, how ranks have ended as far as that was read, and its age."""
    state = "runs" if replay.cell.is_running else "has ended"
    is_known = since <= 0 or not record.running_count
    ends = f" ({record.header().removeprefix('▶ ')})" if is_known else ""
    return f"{state}{ends}, began {max(0.0, time.time() - replay.cell.started_s):.0f} s ago"
