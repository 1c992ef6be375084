import threading

import pytest

from jupyter_dist.cluster.connection.queued_request import ask_at_fence
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
    line = WordyLine(CellWaiting("r1", "busy"), HealProgress("r1", "waiting"))
    heard = []
    assert ask_at_fence(line, HEAL, RanksHealed, on_word=heard.append) == HEALED
    assert heard == ["busy", "waiting"]
    assert ask_at_fence(line, HEAL, RanksHealed) == HEALED, "nobody has to listen"
    assert (line.asked, line.sent) == (HEAL, [])


@pytest.mark.parametrize(
    ("end", "told", "sent"),
    [
        (KeyboardInterrupt(), "%dist_status", [WithdrawCell("r1")]),
        (RuntimeError("refused"), "refused", []),
    ],
)
def test_ctrl_c_takes_back_what_waits_and_other_errors_take_nothing_back(end, told, sent):
    line = WordyLine(end=end)
    with pytest.raises(type(end), match=told):
        ask_at_fence(line, HEAL, RanksHealed)
    assert line.sent == sent
