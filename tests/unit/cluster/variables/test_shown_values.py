import pytest

from jupyter_dist.cluster.variables.shown_values import show_values
from jupyter_dist.errors import UsageError
from jupyter_dist.protocol.messages import NoAnswer, ValueShown


class Line:
    asked = None

    def new_request_id(self):
        return "r1"

    def ask(self, request, kind, timeout_s):
        self.asked = request
        shown = {0: ValueShown("int\n1"), 1: ValueShown("int\n1"), 2: NoAnswer("there is no 'w'")}
        return kind("r1", shown, {3: "it is lost"}), []


def test_ranks_with_the_same_are_told_together_and_silent_ones_with_the_reason():
    found = show_values(Line(), "w[0]", None, 100)
    assert str(found).splitlines() == [
        "ranks 0-1: int",
        "1",
        "rank 3: not shown, it is lost",
        "rank 2: not shown, there is no 'w'",
    ]


def test_what_is_no_place_is_not_asked_for():
    line = Line()
    with pytest.raises(UsageError):
        show_values(line, "w.sum()", None, 100)
    assert line.asked is None
