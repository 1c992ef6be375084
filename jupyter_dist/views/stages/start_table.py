"""How far each host of a start is: a line, a table in HTML, and the same as text."""

import html
from collections import Counter
from collections.abc import Mapping, Sequence

from jupyter_dist.model.hosts.start_stage import HostProgress, StartStage
from jupyter_dist.protocol.messages import StartProgress
from jupyter_dist.text.columns import align
from jupyter_dist.text.plurals import count_of

MOST_ROWS = 16
"""Of more hosts only counts are shown, and those that take longest."""
SLOWEST_ROWS = 5
_GLYPHS = {
    StartStage.WAITING: "◌",
    StartStage.QUEUE: "⋯",
    StartStage.SSH: "⇢",
    StartStage.AGENT: "◔",
    StartStage.ENGINES: "◑",
    StartStage.COMMUNICATOR: "◕",
    StartStage.READY: "●",
    StartStage.LOST: "✗",
}
_TOLD_BY_ALL = (StartStage.WAITING, StartStage.QUEUE)
"""What is the same for all hosts that are there."""
_ORDER = [StartStage.LOST, *(stage for stage in StartStage if stage is not StartStage.LOST)]
"""What a person looks for first."""
_CELL = "padding:0 10px 0 0;text-align:left;border:none;white-space:nowrap"
_FAINT = "padding:0 10px 0 0;text-align:left;border:none;opacity:0.7"


def start_line(progress: StartProgress) -> str:
    """Say in one line how far a start is: `3/4 hosts up · nodeC: ssh 2.1 s · 8/16 ranks ready`."""
    hosts = progress.hosts
    up = sum(host.is_up for host in hosts)
    parts = [f"{up}/{len(hosts)} hosts up"] if len(hosts) > 1 else []
    if any(host.stage in _TOLD_BY_ALL and not host.is_up for host in hosts) or not hosts:
        parts.append(progress.stage)  # it says how an agent joins, or what a scheduler says
    elif slowest := sort_by_progress(hosts)[:1]:
        parts.append(f"{slowest[0].host}: {_stage_text(slowest[0])}")
    if progress.world_size:
        parts.append(f"{progress.ready_ranks}/{progress.world_size} ranks ready")
    return " · ".join(parts)


def passed_text(passed_s: Mapping[str, float]) -> str:
    """Write what stages have taken: `ssh 0.4 s, agent 0.5 s`."""
    return ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in passed_s.items())


def sort_by_progress(hosts: Sequence[HostProgress]) -> list[HostProgress]:
    """Return hosts that will not come first, then those that are least far, the slowest first."""

    def place(host: HostProgress) -> tuple[bool, bool, int, float]:
        is_lost = host.stage is StartStage.LOST
        return (not is_lost, host.is_up, _ORDER.index(host.stage), -host.seconds)

    return sorted(hosts, key=place)


def table_html(hosts: Sequence[HostProgress]) -> str:
    """Write a row for each host, or counts and the slowest where there are many."""
    shown, head = _choose(hosts)
    rows = "".join(
        f'<tr style="background:none"><th scope="row" style="{_CELL};font-weight:normal">'
        f"{html.escape(name)}</th>"
        f'<td style="{_CELL}">{html.escape(stage, quote=False)}</td>'
        f'<td style="{_FAINT}">{html.escape(background, quote=False)}</td></tr>'
        for name, stage, background in map(_cells, shown)
    )
    counts = f"<div>{html.escape(head, quote=False)}</div>" if head else ""
    style = "border-collapse:collapse;margin:2px 0 0 0;font-size:inherit"
    return f'{counts}<table style="{style}">{rows}</table>'


def table_lines(hosts: Sequence[HostProgress]) -> list[str]:
    """Write the same as lines of text."""
    shown, head = _choose(hosts)
    lines = align([_cells(host) for host in shown])
    return [f"  {line}" for line in ([head] if head else []) + lines]


def _choose(hosts: Sequence[HostProgress]) -> tuple[Sequence[HostProgress], str]:
    """Return the hosts that get a row, and what is said of all of them when those are not all."""
    if len(hosts) <= MOST_ROWS:
        return hosts, ""
    counts = Counter(host.stage for host in hosts)
    head = ", ".join(f"{counts[stage]} {stage}" for stage in _ORDER if counts[stage])
    slow = [host for host in sort_by_progress(hosts) if host.stage is not StartStage.READY]
    more = "; the slowest:" if slow else ""
    return slow[:SLOWEST_ROWS], f"{len(hosts)} hosts: {head}{more}"


def _stage_text(host: HostProgress) -> str:
    """Write where a host stands, how long already, and of ranks how many."""
    match host.stage:
        case StartStage.LOST:
            return "lost"
        case StartStage.READY:
            ranks = count_of(host.ranks, "rank")
            return f"ready, {ranks}"
        case StartStage.ENGINES:
            name = f"engines {host.present_ranks} of {host.ranks},"
        case StartStage.COMMUNICATOR:
            name = f"communicator {host.ready_ranks} of {host.ranks},"
        case StartStage.WAITING if host.is_up:
            name = "waiting for other hosts"
        case _:
            name = str(host.stage)
    return f"{name} {host.seconds:.1f} s"


def _cells(host: HostProgress) -> tuple[str, str, str]:
    """Write its name, its stage, and what is known: why it is lost, what goes on, what is over."""
    background = " · ".join(filter(None, (host.note, passed_text(host.passed_s))))
    return f"{_GLYPHS[host.stage]} {host.host}", _stage_text(host), background
