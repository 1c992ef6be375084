"""What holds whatever happens: answers are true and in time, survivors keep what they have."""

import re

import pytest

from jupyter_dist.errors import UsageError
from tests.patience import within
from tests.processes.leftovers import (
    agents_of,
    coordinator_of,
    engines_of,
    relays_of,
    wait_until,
    zygotes_of,
)

QUIET_WITHIN_S = 5.0
KEPT = "kept = ('kept', rank, {token!r})"
SUM = "int(comm.all_reduce(rank + 1))"


def remember(cluster, token):
    """Give every rank something to keep; gives what must be found later, by process."""
    result = cluster.run(KEPT.format(token=token))
    assert result.ok, result
    return {engine.pid: repr(("kept", engine.rank, token)) for engine in cluster.topology().engines}


def assert_survivors_intact(cluster, kept, gone=()):
    """Whoever is not in `gone` (old process ids) still has its process and what it kept."""
    engines = [engine for engine in cluster.topology().engines if engine.state != "lost"]
    present = {engine.pid: engine.rank for engine in engines}
    survivors = {pid: value for pid, value in kept.items() if pid not in gone}
    assert set(survivors) <= set(present), "a survivor has lost its process"
    ranks = sorted(present[pid] for pid in survivors)
    if not ranks:
        return
    result = cluster.run("(os.getpid(), repr(kept))", ranks=ranks)
    assert result.ok, result
    found = [rank.value_repr for rank in result]
    by_rank = {present[pid]: (pid, value) for pid, value in survivors.items()}
    assert found == [repr(by_rank[rank]) for rank in ranks]


def assert_is_lost(cluster, rank, words, within_s):
    """The status says so, with the reason."""

    def is_told():
        engine = cluster.topology().engines[rank]
        return engine.state == "lost" and words in engine.reason

    wait_until(is_told, within_s, f"rank {rank} is told as lost: {words}")


def assert_goes_on(cluster, within_s=10.0):
    """Heal what is lost; then all ranks compute together, and nothing lives that should not."""
    if any(engine.state == "lost" for engine in cluster.topology().engines):
        with within(within_s):
            cluster.heal()
    else:
        with pytest.raises(UsageError, match="every rank"):
            cluster.heal()
    size = cluster.world_size
    result = cluster.run(SUM, timeout_s=90)
    assert [rank.value_repr for rank in result] == [str(size * (size + 1) // 2)] * size, result


def assert_nothing_else_lives(cluster, home):
    """Of this home there is one coordinator, and its agents, zygotes, relays and engines."""

    def strangers():
        ours = [coordinator_of(cluster), *agents_of(cluster), *zygotes_of(cluster)]
        ours += relays_of(cluster)
        known = {process.pid for process in (*ours, *engines_of(cluster))}
        return [process for process in home.processes() if process.pid not in known]

    wait_until(lambda: not strangers(), QUIET_WITHIN_S, "no process but those of the cluster")


_UNSENT = re.compile(r"\n\[\d+ bytes that it had not sent [^\n]*\]\n[^\n]*\n")
_LEFT_OUT = re.compile(r"\[([\d,]+) lines? left out: .*\]")
_NOT_KEPT = re.compile(r"\[.* older output not kept; .*\]")


def assert_lines_complete(text, *, may_be_cut):
    """Lines of a rank that prints much have come in order, none twice and none missing.

    A rank that was killed may leave some out where it says so, and a client that came later may
    lack the oldest. Of what a client takes in too slowly, as on a busy machine, some may be left
    out where it says how many.
    """
    if may_be_cut:
        text, *rest = _UNSENT.split(text)
        if rest:
            _assert_numbered(rest[0], None, may_be_cut=True)
    _assert_numbered(text, 0, may_be_cut=may_be_cut)


def _assert_numbered(text, expected, *, may_be_cut):
    """Each line begins with its number; None: the first one may have any."""
    lines = text.split("\n")
    if may_be_cut or not lines[-1]:
        lines.pop()
    for place, line in enumerate(lines):
        if left_out := _LEFT_OUT.fullmatch(line):
            expected += int(left_out[1].replace(",", ""))
        elif _NOT_KEPT.fullmatch(line):
            assert place == 0, "what is not kept was the oldest"
            expected = None
        else:
            around = lines[max(0, place - 2) : place + 3]
            number = line.split()[0]
            assert expected is None or number == str(expected), f"{expected} is missing: {around}"
            expected = int(number) + 1
