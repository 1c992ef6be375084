"""A folded progress bar as one line of text, and as the words beside a drawn one."""

from collections.abc import Sequence

from jupyter_dist.model.hosts.rank import name_rank, name_ranks
from jupyter_dist.text.plurals import fit
from jupyter_dist.views.outputs.grouping import label_ranks
from jupyter_dist.views.progress.folded_bars import FoldedBar, RankBar

BARS_CAP = 24
"""Bars that are shown: the last ones, those that still move before those that do not."""
_CELLS = 20
_LONGEST_S = 1e9
_SHADES = ((1.0, "█"), (0.6, "▓"), (0.3, "▒"), (0.0, "░"))
_STOPPED_CAP = 4
_UNEVEN = 1.1
"""From this ratio on the longest and the shortest time are told apart."""


def bar_line(folded: FoldedBar, *, has_times: bool = True) -> str:
    """Write it as one line: `epoch [0-3] 62% ▕████▓▒░··▏ mean 620/1000 · slowest …`."""
    head = f"{folded.description} " if folded.description else ""
    drawn = _draw(folded.shares)
    return f"{head}{label_ranks(folded.ranks)} {drawn}{bar_facts(folded, has_times=has_times)}"


def bar_facts(folded: FoldedBar, *, has_times: bool = True) -> str:
    """Return how far it is: the mean, the slowest and fastest rank, the rate, the time left."""
    first = folded.first
    facts = [_count(folded)]
    if not folded.is_even:
        slowest, fastest = folded.slowest, folded.fastest
        facts += [
            f"slowest rank {slowest}: {_amount(folded.bars[slowest].n, first)}",
            f"fastest rank {fastest}: {_amount(folded.bars[fastest].n, first)}",
        ]
    facts += [_rate(folded), _time(folded)] if has_times else []
    facts += [_postfix(folded), *_stops(folded)]
    return " · ".join(fact for fact in facts if fact)


def shown_bars(bars: Sequence[FoldedBar]) -> tuple[list[FoldedBar], str]:
    """Choose the bars to be shown, in order, and say how many are not."""
    if len(bars) <= BARS_CAP:
        return list(bars), ""
    by_need = sorted(range(len(bars)), key=lambda index: (bars[index].is_over, -index))
    kept = sorted(by_need[:BARS_CAP])
    gone = len(bars) - BARS_CAP
    return [bars[index] for index in kept], f"… {gone:,} more progress bars"


def bars_lines(bars: Sequence[FoldedBar], *, has_times: bool = True) -> list[str]:
    """Write all bars as lines of text."""
    shown, more = shown_bars(bars)
    lines = (bar_line(bar, has_times=has_times) for bar in shown)
    return [*([more] if more else []), *lines]


def _draw(shares: Sequence[float] | None) -> str:
    if not shares:
        return ""
    percent = f"{100 * sum(shares) / len(shares):.0f}%"
    cells = "".join(_shade(shares, cell / _CELLS) for cell in range(1, _CELLS + 1))
    return f"{percent:>4} ▕{cells}▏ "


def _shade(shares: Sequence[float], edge: float) -> str:
    """Return the sign of a cell: the darker, the more ranks have passed its end."""
    passed = sum(share >= edge - 1e-9 for share in shares) / len(shares)
    return next((sign for at_least, sign in _SHADES if passed >= at_least and passed), "·")


def _count(folded: FoldedBar) -> str:
    first = folded.first
    totals = {bar.total for bar in folded.bars.values()}
    total = totals.pop() if len(totals) == 1 else None
    mean = "" if folded.is_even else "mean "
    count = f"{mean}{_amount(folded.first.n if folded.is_even else folded.mean, first)}"
    return f"{count}/{_amount(total, first)}" if total is not None else f"{count} {first.unit}"


def _rate(folded: FoldedBar) -> str:
    rates = [bar.rate for bar in folded.bars.values()]
    rate = sum(rates) / len(rates)
    if rate <= 0:
        return ""
    each = fit(rates, "", " each")
    if rate < 1 and not folded.first.divisor:
        return f"{1 / rate:.2f} s/{folded.first.unit}{each}"
    shown = _amount(rate, folded.first) if folded.first.divisor else f"{rate:,.1f} "
    return f"{shown}{folded.first.unit}/s{each}"


def _time(folded: FoldedBar) -> str:
    if not folded.is_over:
        left_s = folded.left_s
        return "" if left_s is None else f"{_clock(left_s)} left"
    times = {rank: bar.elapsed_s for rank, bar in folded.bars.items()}
    last = max(times, key=lambda rank: (times[rank], -rank))
    shortest, longest = _clock(min(times.values())), _clock(times[last])
    if times[last] < _UNEVEN * min(times.values()) or shortest == longest:
        return f"took {longest}"
    return f"took {shortest} to {longest} (rank {last})"


def _postfix(folded: FoldedBar) -> str:
    texts = {bar.postfix for bar in folded.bars.values()}
    first_rank = folded.ranks[0]
    whose = f" (rank {first_rank})" if len(texts) > 1 else ""
    return f"{folded.first.postfix}{whose}" if folded.first.postfix else ""


def _stops(folded: FoldedBar) -> list[str]:
    ranks = sorted(folded.stopped)
    told = [
        f"{name_rank(rank)} stopped at {_amount(folded.bars[rank].n, folded.first)} "
        f"({folded.stopped[rank].replace('_', ' ')})"
        for rank in ranks[:_STOPPED_CAP]
    ]
    rest = ranks[_STOPPED_CAP:]
    return [*told, f"{name_ranks(rest)} stopped too"] if rest else told


def _amount(number: float, bar: RankBar) -> str:
    if bar.divisor:
        for prefix in ("", "k", "M", "G", "T"):
            if abs(number) < 999.5 or prefix == "T":
                return f"{number:.3g}{prefix}"
            number /= bar.divisor
    if float(number).is_integer():
        return f"{int(number):,}"
    return f"{number:,.1f}"


def _clock(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds > _LONGEST_S:
        return "years"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
