"""What a benchmark's numbers mean: sentences, each with how good or bad that is."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from jupyter_dist.model.bandwidth import Promise
from jupyter_dist.model.bench import (
    BenchPoint,
    BenchReport,
    bandwidth_text,
    size_text,
    time_text,
)
from jupyter_dist.model.rank import name_ranks
from jupyter_dist.model.text import name_some

VerdictLevel: TypeAlias = Literal["good", "warning", "bad", "unknown"]
GOOD_SHARE = 0.8
FAIR_SHARE = 0.5


class Verdict(msgspec.Struct, frozen=True):
    """One sentence about a benchmark."""

    level: VerdictLevel
    """unknown: it is neither good nor bad."""
    text: str


def judge(report: BenchReport) -> tuple[Verdict, ...]:
    """Say what is wrong, how fast each operation is at best, and what a small message costs."""
    wrong = [verdict for op in report.ops for verdict in _judge_results(report.of(op))]
    speeds = [_judge_speed(report.of(op), report.promise) for op in report.ops]
    return (*wrong, *speeds, *_say_what_is_unknown(report), *_judge_latency(report))


def has_wrong_results(report: BenchReport) -> bool:
    """Tell whether any result was not what it must be."""
    return any(point.wrong for point in report.points)


def _judge_results(points: Sequence[BenchPoint]) -> list[Verdict]:
    wrong = [point for point in points if point.wrong]
    if not wrong:
        return []
    told = [f"{point.wrong} at {size_text(point.nbytes)}" for point in wrong]
    ranks = name_ranks({rank for point in wrong for rank in point.wrong_ranks})
    text = f"{wrong[0].op}: wrong results on {ranks}; wrong elements: {name_some(told)}"
    return [Verdict("bad", text)]


def _judge_speed(points: Sequence[BenchPoint], promise: Promise) -> Verdict:
    best = max(points, key=lambda point: point.algbw)
    where = f"at {size_text(best.nbytes)}"
    if best.busbw is None:
        reached = f"{best.op}: at best {bandwidth_text(best.algbw)} GB/s algbw {where}"
        return Verdict("unknown", reached)
    reached = f"{best.op}: at best {bandwidth_text(best.busbw)} GB/s busbw {where}"
    if not promise.gb_per_s:
        return Verdict("unknown", reached)
    share = best.busbw / promise.gb_per_s
    promised = f"{bandwidth_text(promise.gb_per_s)} GB/s that {promise.words} can carry"
    text = f"{reached}, {100 * share:.0f} % of {promised}"
    if share > 1 and best.op == "all_reduce":
        text += ": in-network reduction"
    return Verdict(_level(share), text)


def _say_what_is_unknown(report: BenchReport) -> list[Verdict]:
    if report.world_size < 2:
        return [Verdict("unknown", "busbw: n/a, because with one rank there is no bus")]
    if report.promise.gb_per_s:
        return []
    reason = report.promise.words.removeprefix("unknown: ")
    return [Verdict("unknown", f"no promise known: {reason}")]


def _level(share: float) -> VerdictLevel:
    if share >= GOOD_SHARE:
        return "good"
    return "warning" if share >= FAIR_SHARE else "bad"


def _judge_latency(report: BenchReport) -> list[Verdict]:
    """Say how long the smallest message of each operation takes."""
    by_size: dict[int, list[str]] = {}
    for point in (report.of(op)[0] for op in report.ops):
        told = f"{point.op} {time_text(point.median_s)}"
        by_size.setdefault(point.nbytes, []).append(told)
    return [
        Verdict("unknown", f"small messages, {size_text(nbytes)}: {', '.join(told)}")
        for nbytes, told in sorted(by_size.items())
    ]
