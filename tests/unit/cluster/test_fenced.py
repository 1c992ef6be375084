import threading

import pytest

from jupyter_dist.cluster.fenced import ask_at_fence
from jupyter_dist.protocol.messages import (
    CellWaiting,
    HealProgress,
    HealRanks,
    RanksHealed,
    WithdrawCell,
)

HEAL = HealRanks("r1")
HEALED = RanksHealed("r1", 2, {1: "a"}, (), (), {})


class WordyLine:
    """A line whose coordinator says these things before it answers, or before Ctrl-C."""

    def __init__(self, *words, end=HEALED):
        self.lock = threading.RLock()
        self.sent = []
        self._words = words
        self._end = end

    def send(self, message):
        self.sent.append(message)

    def ask(self, request, answer_type, *, on_other):
        self.asked = request
        for word in self._words:
            on_other(word)
        if isinstance(self._end, BaseException):
            raise self._end
        assert isinstance(self._end, answer_type)
        return self._end, []


def test_each_word_about_the_wait_is_passed_on():
    line = WordyLine(
        CellWaiting("r1", "waits: rank 0 is still busy"), HealProgress("r1", "waiting for rank 1")
    )
    heard = []
    assert ask_at_fence(line, HEAL, RanksHealed, on_word=heard.append) == HEALED
    assert heard == ["waits: rank 0 is still busy", "waiting for rank 1"]
    assert line.sent == []


def test_nobody_has_to_listen():
    line = WordyLine(CellWaiting("r1", "waits"))
    assert ask_at_fence(line, HEAL, RanksHealed) == HEALED
    assert line.asked == HEAL


def test_ctrl_c_takes_back_what_waits():
    line = WordyLine(end=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt, match=r"is taken back; .*%dist_status tells"):
        ask_at_fence(line, HEAL, RanksHealed)
    assert line.sent == [WithdrawCell("r1")]


def test_other_errors_take_nothing_back():
    line = WordyLine(end=RuntimeError("refused"))
    with pytest.raises(RuntimeError, match="refused"):
        ask_at_fence(line, HEAL, RanksHealed)
    assert line.sent == []
