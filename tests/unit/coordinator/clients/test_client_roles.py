import pytest
from fakes.outbox import RecordingSender

from jupyter_dist.coordinator.clients.client_roles import SILENCE_LIMIT_S, ClientRoles
from jupyter_dist.errors import ErrorCode
from jupyter_dist.protocol.identity import line_identity
from jupyter_dist.protocol.messages import (
    AskRanks,
    AwaitReady,
    ClaimRole,
    FollowCell,
    InterruptCell,
    KernelRole,
    ListCells,
    ListNames,
    NoteAuto,
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

    def take(self, pid, role="own", *, over=False, client="a", who=None, kernel="", machine=""):
        line = line_identity(f"{client}-{pid}", 1)
        who = who or f"notebook {pid}"
        request = ClaimRole("t1", pid, who, role, over, kernel, machine=machine)
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


def test_an_owner_that_is_silent_lives_until_its_process_ends_or_it_leaves(server):
    assert not server.part.has_living_owner
    server.take(1)
    server.now_s += 3600.0
    assert server.part.has_living_owner
    server.dead.add(1)
    assert not server.part.has_living_owner
    server.take(2)
    server.take(2, "visit")
    assert not server.part.has_living_owner


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
        NoteAuto("n1", is_on=True),
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


def test_a_page_is_told_which_notebooks_own_and_observe_the_cluster(server):
    server.take(1, kernel="first")
    server.take(2, "observe", kernel="second")
    server.take(3, "observe")
    told = server.take(9, "visit").kernels
    assert told == (KernelRole("first", "own"), KernelRole("second", "observe"))


def test_a_page_is_told_whether_all_cells_of_a_notebook_run_on_ranks(server):
    server.take(1, kernel="first")
    line = line_identity("a-1", 2)
    for is_on in (True, False):
        server.part.note_auto(line, NoteAuto("n1", is_on), 100.0)
        assert server.take(9, "visit").kernels == (KernelRole("first", "own", is_auto=is_on),)
    server.part.note_auto(line_identity("stranger", 1), NoteAuto("n1", is_on=True), 100.0)


def test_the_last_owner_is_known_after_its_kernel_has_ended_until_it_has_another_part(server):
    server.take(1, kernel="first")
    server.dead.add(1)
    assert server.take(9, "visit").kernels == (KernelRole("first", "owned"),)
    server.take(2, "observe", kernel="first")
    assert server.take(9, "visit").kernels == (KernelRole("first", "observe"),)
    server.take(3, kernel="second")
    told = server.take(9, "visit").kernels
    assert set(told) == {KernelRole("first", "observe"), KernelRole("second", "own")}


def test_who_was_taken_over_observes_and_who_has_left_is_not_told_of(server):
    server.take(1, kernel="first")
    server.take(2, over=True, kernel="second")
    told = server.take(9, "visit").kernels
    assert told == (KernelRole("first", "observe"), KernelRole("second", "own"))
    server.take(2, "visit", kernel="second")
    server.take(1, "visit", kernel="first")
    assert server.take(9, "visit").kernels == ()
    server.dead.add(2)
    assert server.take(9, "visit").kernels == (KernelRole("second", "owned"),)


def test_a_process_of_another_machine_owns_until_it_is_silent():
    house = House()
    far = ClaimRole("t1", 7, "notebook far", machine="1 laptop")
    line = line_identity("far-7", 1)
    house.dead = {7}  # here
    house.part.take_part(line, far, house.now_s)
    assert not house.part.has_living_owner  # as far as is known
    refused = house.take(7, client="near")
    assert isinstance(refused, Refused)
    assert "(process 7 on laptop)" in refused.reason
    assert house.part.is_owners(line)
    house.now_s += SILENCE_LIMIT_S + 1
    assert isinstance(house.take(7, client="near"), RoleGranted)


def test_kernels_of_another_machine_are_told_of_by_when_they_were_heard(server):
    far = {"machine": "1 laptop"}
    server.take(1, kernel="killed", **far)
    server.take(2, "observe", kernel="silent", **far)
    server.take(3, "observe", kernel="heard", **far)
    assert {each.kernel for each in server.take(9, "visit").kernels} == {
        "killed",
        "silent",
        "heard",
    }
    server.now_s += SILENCE_LIMIT_S + 1
    server.hear(3)
    told = server.take(9, "visit").kernels
    assert told == (KernelRole("killed", "owned"), KernelRole("heard", "observe"))
    assert server.objection(2), "who is silent for a while observes still"
    server.hear(2)
    assert KernelRole("silent", "observe") in server.take(9, "visit").kernels
    server.now_s += 25 * 3600
    server.take(9, "visit")
    assert server.objection(2) == "", "after a day it is forgotten"


def test_an_owner_on_another_machine_that_claims_its_place_again_keeps_it_while_it_is_heard(server):
    far = {"machine": "1 laptop", "kernel": "first"}
    server.take(1, **far)
    server.take(1, **far)
    server.now_s += SILENCE_LIMIT_S + 1
    server.hear(1)
    answer = server.take(9, "visit")
    assert (answer.owner, answer.kernels) == ("notebook 1", (KernelRole("first", "own"),))
