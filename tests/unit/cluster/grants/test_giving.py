import time

import pytest

from jupyter_dist.cluster.grants.giving import GivenGrant, allow_agents, write_acts, write_grants
from jupyter_dist.errors import UsageError
from jupyter_dist.protocol.messages import GiveGrant, Grant


class Line:
    """Answers a request as the coordinator does."""

    def __init__(self):
        self.asked = []

    def new_request_id(self):
        return "r1"

    def ask(self, request, kind, timeout_s):
        self.asked.append(request)
        return kind("r1", Grant(1, request.may, 0.0), "the-token"), []


@pytest.mark.parametrize("may", ["run,heal", " run, heal ", ["run", "heal"], ("run", "heal")])
def test_acts_are_given_as_a_text_or_one_by_one(may):
    line = Line()
    given = allow_agents(line, "demo", may, 60.0)
    assert line.asked == [GiveGrant("r1", ("run", "heal"), 60.0)]
    assert (type(given), given.token) == (GivenGrant, "the-token")


@pytest.mark.parametrize("for_s", [float("inf"), float("nan")])
def test_a_grant_without_an_end_is_refused(for_s):
    line = Line()
    with pytest.raises(UsageError):
        allow_agents(line, "demo", "run", for_s)
    assert line.asked == []


def test_what_holds_is_told_with_what_was_done():
    used = Grant(1, ("run", "interrupt", "heal"), time.time() + 1, 2, "run In[10001] by x")
    first, second = write_grants([used, Grant(2, ("run",), 4e9)]).splitlines()
    assert first.startswith("grant 1: run, interrupt and heal until ")
    assert "run In[10001] by x" in first
    assert "2" in second
    assert write_acts(("run",)) == "run"
    assert "%dist_allow" in write_grants([])
