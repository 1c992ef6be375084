"""What a benchmark's numbers mean: sentences, each with how good or bad that is."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from jupyter_dist.model.bench.bandwidth import Promise
from jupyter_dist.model.bench.measurements import BenchPoint, BenchReport, bandwidth_text, time_text
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.text.lists import name_some
from jupyter_dist.text.sizes import tell_size
from jupyter_dist.views.outputs.grouping import group_by

VerdictLevel: TypeAlias = Literal["good", "warning", "bad", "unknown"]
GOOD_SHARE = 0.8
FAIR_SHARE = 0.5


class BenchVerdict(msgspec.Struct, frozen=True):
    """One sentence about a benchmark."""

    level: VerdictLevel
    """unknown: it is neither good nor bad."""
    text: str


def judge(report: BenchReport) -> tuple[BenchVerdict, ...]:
    """Return what is wrong, how fast each operation is at best, and what a small message costs."""
    wrong = [verdict for op in report.ops for verdict in _judge_results(report.of(op))]
    speeds = [_judge_speed(report.of(op), report.promise) for op in report.ops]
    return (*wrong, *speeds, *_say_what_is_unknown(report), *_judge_latency(report))


def has_wrong_results(report: BenchReport) -> bool:
    """Return whether any result was not what it must be."""
    return any(point.wrong for point in report.points)


def _judge_results(points: Sequence[BenchPoint]) -> list[BenchVerdict]:
    wrong = [point for point in points if point.wrong]
    if not wrong:
        return []
    told = [f"{point.wrong} at {tell_size(point.nbytes)}" for point in wrong]
    ranks = name_ranks({rank for point in wrong for rank in point.wrong_ranks})
    text = f"{wrong[0].op}: wrong results on {ranks}; wrong elements: {name_some(told)}"
    return [BenchVerdict("bad", text)]


def _judge_speed(points: Sequence[BenchPoint], promise: Promise) -> BenchVerdict:
    best = max(points, key=lambda point: point.algbw)
    where = f"at {tell_size(best.nbytes)}"
    if best.busbw is None:
        reached = f"{best.op}: at best {bandwidth_text(best.algbw)} GB/s algbw {where}"
        return BenchVerdict("unknown", reached)
    reached = f"{best.op}: at best {bandwidth_text(best.busbw)} GB/s busbw {where}"
    if not promise.gb_per_s:
        return BenchVerdict("unknown", reached)
    share = best.busbw / promise.gb_per_s
    promised = f"{bandwidth_text(promise.gb_per_s)} GB/s that {promise.words} can carry"
    text = f"{reached}, {100 * share:.0f} % of {promised}"
    if share > 1 and best.op == "all_reduce":
        text += ": in-network reduction"
    return BenchVerdict(_level(share), text)


def _say_what_is_unknown(report: BenchReport) -> list[BenchVerdict]:
    if report.world_size < 2:
        return [BenchVerdict("unknown", "busbw: n/a, because with one rank there is no bus")]
    if report.promise.gb_per_s:
        return []
    return [BenchVerdict("unknown", f"no promise known: {report.promise.words}")]


def _level(share: float) -> VerdictLevel:
    if share >= GOOD_SHARE:
        return "good"
    return "warning" if share >= FAIR_SHARE else "bad"


def _judge_latency(report: BenchReport) -> list[BenchVerdict]:
    by_size = group_by((report.of(op)[0] for op in report.ops), lambda point: point.nbytes)
    verdicts = []
    for nbytes, points in sorted(by_size.items()):
        told = ", ".join(f"{point.op} {time_text(point.median_s)}" for point in points)
        verdicts.append(BenchVerdict("unknown", f"small messages, {tell_size(nbytes)}: {told}"))
    return verdicts
