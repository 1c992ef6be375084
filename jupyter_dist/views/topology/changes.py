"""What pages are told of a topology: what changed since what they were told last.

A whole state is what changed since an empty one. Each change names the state it is meant for, so
that a page applies it to that one only, and otherwise asks for the whole. `static/changes.js` reads
them.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any

import msgspec

from jupyter_dist.model.hosts.topology import (
    CollectiveView,
    EngineView,
    GpuView,
    HostView,
    Topology,
)

Values = dict[str, Any]
"""A part of a topology as JSON has it."""

_RECORDS: Mapping[str, Values] = {
    "hosts": msgspec.to_builtins(HostView(name="")),
    "engines": msgspec.to_builtins(EngineView(rank=-1, local_rank=-1)),
    "gpus": msgspec.to_builtins(GpuView(index=-1)),
    "collective": msgspec.to_builtins(CollectiveView(0, "", 0.0, is_running=False)),
}
"""What is told by its difference: new ones to these."""
_FRESH_BEAT_S = 1.5
"""Beats come each second: that one came is not told again and again."""
_FRESH_SAMPLE_S = 3.0
_AGE_TOLERANCE_S = 0.2
"""Pages let ages grow; one that is wrong by more than this many seconds is sent."""
_GRAIN_BYTES = 1 << 20


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a page has to do to know the state `number`."""

    base: int
    """The state it must know for that; 0: none, this is the whole."""
    number: int
    passed_s: float
    """So much older everything has become since `base`."""
    change: Values
    """Fields that changed; of lists of hosts, engines and GPUs the `length`, and by place what
    changed of each."""
    records: Mapping[str, Values] = {}
    """Of a whole state: what a host, engine, GPU or collective is before its fields are told."""


class Teller:
    """Tells pages that hear all of it, in order, how a cluster is. Has one thread or lock."""

    def __init__(self) -> None:
        self._known: Values = {}
        self._number = 0
        self._told_s = 0.0

    def tell(self, topology: Topology, now_s: float) -> Told:
        """Return the change to this state; the first one is the whole."""
        if not self._number:
            self._known, self._number, self._told_s = _smooth(topology), 1, now_s
            return self.whole()
        passed_s = now_s - self._told_s
        before, after = self._known, _smooth(topology)
        _grow_older(before, passed_s)
        _keep_ages(before, after)
        self._known, self._told_s = after, now_s
        self._number += 1
        return Told(
            base=self._number - 1,
            number=self._number,
            passed_s=passed_s,
            change=_difference(before, after),
        )

    def whole(self) -> Told:
        """Return the state that was told last as a whole."""
        return _whole(self._known, self._number)


def tell_whole(topology: Topology, number: int) -> Told:
    """Return a state as a whole for those who did not hear what was told before."""
    return _whole(_smooth(topology), number)


def _whole(known: Values, number: int) -> Told:
    change = _difference({}, known)
    return Told(base=0, number=number, passed_s=0.0, change=change, records=_RECORDS)


def _smooth(topology: Topology) -> Values:
    """Leave out of numbers what no picture shows: it changes all the time."""
    state: Values = msgspec.to_builtins(topology)
    for host in state["hosts"]:
        if host["sampled_s"] < _FRESH_SAMPLE_S:
            host["sampled_s"] = 0.0
        _round(host, "cpu_percent")
        host["memory_used_bytes"] &= -_GRAIN_BYTES
        for engine in host["engines"]:
            if engine["beat_age_s"] < _FRESH_BEAT_S:
                engine["beat_age_s"] = 0.0
            _round(engine, "cpu_percent")
            engine["rss_bytes"] &= -_GRAIN_BYTES
            engine["gpu_memory_bytes"] &= -_GRAIN_BYTES
        for gpu in host["gpus"]:
            gpu["memory_used_bytes"] &= -_GRAIN_BYTES
            _round(gpu, "utilisation_percent", "power_w", "temperature_c")
    return state


def _round(values: Values, *names: str) -> None:
    for name in names:
        values[name] = round(values[name]) if isfinite(values[name]) else 0


def _grow_older(state: Values, passed_s: float) -> None:
    """Let all ages grow that grow with time; static/changes.js does the same."""
    for host in state["hosts"]:
        if host["sampled_s"]:
            host["sampled_s"] += passed_s
        for engine in host["engines"]:
            if engine["beat_age_s"]:
                engine["beat_age_s"] += passed_s
            if engine["cell"]:
                engine["busy_s"] += passed_s
            inside = engine["collective"]
            if inside and inside["is_running"]:
                inside["seconds"] += passed_s
        for gpu in host["gpus"]:
            if gpu["xid"]:
                gpu["xid_age_s"] += passed_s


def _keep_ages(before: Values, after: Values) -> None:
    """Take ages from before where they are about right, so that they are no change."""
    for old_host, host in zip(before["hosts"], after["hosts"], strict=False):
        _keep_age(old_host, host, "sampled_s")
        for old, new in zip(old_host["engines"], host["engines"], strict=False):
            _keep_age(old, new, "beat_age_s")
            _keep_age(old, new, "busy_s")
            if old["collective"] and new["collective"]:
                _keep_age(old["collective"], new["collective"], "seconds")
        for old, new in zip(old_host["gpus"], host["gpus"], strict=False):
            _keep_age(old, new, "xid_age_s")


def _keep_age(old: Values, new: Values, name: str) -> None:
    # None and not a number are what they are.
    before, after = old[name], new[name]
    if before and after and abs(before - after) < _AGE_TOLERANCE_S:
        new[name] = before


def _difference(before: Values, after: Values) -> Values:
    found: Values = {}
    for name, value in after.items():
        known = before.get(name)
        if known == value and name in before:
            continue
        record = _RECORDS.get(name)
        if record is None or value is None:
            found[name] = value
        elif isinstance(value, dict):
            found[name] = _difference(known or record, value)
        else:
            found[name] = _difference_of_lists(known or [], value, record)
    return found


def _difference_of_lists(before: list[Values], after: list[Values], record: Values) -> Values:
    found: Values = {"length": len(after)}
    for place, value in enumerate(after):
        known = before[place] if place < len(before) else record
        if known != value:
            found[str(place)] = _difference(known, value)
    return found
