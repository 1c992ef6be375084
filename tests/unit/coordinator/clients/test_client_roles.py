import pytest
from fakes.outbox import RecordingSender

from jupyter_dist.coordinator.clients.client_roles import ClientRoles
from jupyter_dist.errors import ErrorCode
from jupyter_dist.protocol.identity import line_identity
from jupyter_dist.protocol.messages import (
    AskRanks,
    AwaitReady,
    ClaimRole,
    FollowCell,
    InterruptCell,
    ListCells,
    ListNames,
    OutputSeen,
    Refused,
    ReplayOutput,
    RoleGranted,
    StopCluster,
    SubmitCell,
    WatchTopology,
    WithdrawCell,
)

CELL = SubmitCell("s1", "x = 1")


class House:
    """Participation with processes that live until `dead` has their number."""

    def __init__(self):
        self.sender = RecordingSender()
        self.dead = set()
        self.now_s = 100.0
        self.asked = []
        self.part = ClientRoles("demo", self.sender, self.lives, lambda: 0.0)

    def lives(self, pid):
        self.asked.append(pid)
        return pid not in self.dead

    def take(self, pid, role="own", *, over=False, client="a", who=None):
        line = line_identity(f"{client}-{pid}", 1)
        request = ClaimRole("t1", pid, who or f"notebook {pid}", role, over)
        self.sender.forget()
        self.part.take_part(line, request, self.now_s)
        [(to, answer, _)] = self.sender.clients
        assert to == line
        return answer

    def objection(self, pid, message=CELL, *, client="a", line=2):
        return self.part.find_objection(line_identity(f"{client}-{pid}", line), message, self.now_s)

    def hear(self, pid, client="a"):
        self.part.hear(line_identity(f"{client}-{pid}", 3), self.now_s)


@pytest.fixture
def server():
    return House()


def test_the_first_one_drives(server):
    assert server.take(1) == RoleGranted("t1", "own", "notebook 1")
    assert server.objection(1) == ""


def test_a_second_process_is_told_who_drives_and_both_ways_out(server):
    server.take(1)
    refused = server.take(2)
    assert isinstance(refused, Refused)
    assert refused.code == ErrorCode.CLUSTER_IN_USE
    for word in ("'demo'", "notebook 1 (process 1) since ", "--watch", "--take-over"):
        assert word in refused.reason


def test_several_clients_of_one_process_are_one_driver(server):
    server.take(1)
    assert isinstance(server.take(1, client="b"), RoleGranted)
    assert server.objection(1) == server.objection(1, client="b") == ""


@pytest.mark.parametrize(("role", "client"), [("visit", "a"), ("observe", "b"), ("gone", "")])
def test_a_driver_that_is_gone_or_has_another_role_has_left_its_place(server, role, client):
    server.take(1)
    if role == "gone":
        server.dead.add(1)
    else:
        server.take(1, role, client=client)
    assert server.take(2) == RoleGranted("t1", "own", "notebook 2")


def test_a_driver_that_has_not_shown_itself_has_left_its_place(server):
    server.take(1)
    server.now_s += 14.0
    server.hear(1)
    server.now_s += 14.0
    assert isinstance(server.take(2), Refused), "C code may hold its interpreter for a while"
    server.now_s += 2.0
    assert isinstance(server.take(2), RoleGranted)


def test_the_place_is_kept_while_another_client_of_the_process_drives(server):
    server.take(1)
    server.take(1, "visit", client="c")
    assert isinstance(server.take(2), Refused), "a visit leaves it its place"
    server.take(1, client="b")
    server.take(1, "visit")
    assert isinstance(server.take(2), Refused)
    server.take(1, "visit", client="b")
    assert isinstance(server.take(2), RoleGranted)


def test_who_was_taken_over_from_may_still_take_its_own_cell_back(server):
    server.take(1)
    server.take(2, over=True)
    assert server.objection(1, WithdrawCell("s1")) == ""
    assert server.objection(1, InterruptCell("r"))
    assert server.objection(2) == "", "taking it back does not own it"


def test_a_driver_that_comes_back_drives_on_if_nobody_has_its_place(server):
    server.take(1)
    server.now_s += 60.0
    assert server.objection(1) == ""
    server.now_s += 60.0
    server.take(2)
    assert "notebook 2" in server.objection(1)


def test_who_was_taken_over_from_is_told_by_whom_and_the_way_back(server):
    server.take(1)
    assert isinstance(server.take(2, over=True), RoleGranted)
    assert server.objection(2) == ""
    text = server.objection(1)
    assert " notebook 2 (process 2) " in text
    assert "%dist_attach demo --take-over" in text
    assert server.objection(1, WatchTopology("w1")) == ""
    server.take(1, over=True)
    assert server.objection(1) == ""
    assert "notebook 1" in server.objection(2)


def test_once_who_took_over_is_gone_the_former_driver_drives_again(server):
    server.take(1)
    server.take(2, over=True)
    server.dead.add(2)
    assert server.objection(1) == ""
    assert isinstance(server.take(3), Refused)


@pytest.mark.parametrize(
    "message",
    [
        AwaitReady("r"),
        WatchTopology("r"),
        ListCells("r"),
        ReplayOutput("r"),
        FollowCell("r"),
        AskRanks("r", ListNames()),
        OutputSeen("cell-1", 5),
        WithdrawCell("s1"),
        ClaimRole("r", 2, "me"),
    ],
)
def test_a_watcher_may_look(server, message):
    server.take(1)
    assert server.take(2, "observe") == RoleGranted("t1", "observe", "notebook 1")
    assert server.objection(2, message) == ""


@pytest.mark.parametrize("message", [CELL, InterruptCell("r"), StopCluster("r")])
def test_a_watcher_may_do_nothing_else(server, message):
    server.take(1)
    server.take(2, "observe")
    text = server.objection(2, message)
    assert "notebook 1" in text
    assert "%dist_attach demo --take-over" in text


def test_a_watcher_of_a_cluster_that_nobody_drives_need_not_take_over(server):
    assert server.take(2, "observe") == RoleGranted("t1", "observe", "")
    text = server.objection(2)
    assert "%dist_attach demo." in text
    assert "owned" not in text


def test_a_visitor_works_beside_the_driver(server):
    server.take(1)
    assert server.take(2, "visit") == RoleGranted("t1", "visit", "notebook 1")
    assert server.objection(2, StopCluster("r")) == ""
    assert server.objection(1) == ""
    server.take(1, "visit")
    server.take(2)
    assert server.objection(1) == "", "a visitor may do what it came for"
    server.take(1, "observe", client="b")
    assert server.objection(1, client="b"), "and who watches may not"


def test_visits_cost_nothing_once_they_are_over(server):
    for number in range(500):
        server.take(1, "visit", client=f"page{number}")
    server.asked.clear()
    server.take(1, "visit", client="another")
    assert server.asked == [], "one process that lives on may send very many"


def test_a_client_that_has_said_nothing_is_a_visitor(server):
    server.take(1)
    assert server.part.find_objection(b"old", CELL, server.now_s) == ""


def test_an_unknown_role_is_refused(server):
    refused = server.take(1, "rule")
    assert refused.code == ErrorCode.USAGE_ERROR
    assert "own, observe, visit" in refused.reason
