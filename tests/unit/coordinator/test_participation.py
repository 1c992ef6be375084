import pytest
from fakes.outbox import RecordingOutbox

from jupyter_dist.coordinator.participation import Participation
from jupyter_dist.protocol.identity import client_of, line_identity, new_client
from jupyter_dist.protocol.messages import (
    AskRanks,
    AwaitReady,
    FollowCell,
    InterruptCell,
    ListCells,
    ListNames,
    OutputSeen,
    PartTaken,
    Refused,
    ReplayOutput,
    StopCluster,
    SubmitCell,
    TakePart,
    WatchTopology,
    WithdrawCell,
)

CELL = SubmitCell("s1", "x = 1")


class House:
    """Participation with processes that live until `dead` has their number."""

    def __init__(self):
        self.outbox = RecordingOutbox()
        self.dead = set()
        self.now_s = 100.0
        self.asked = []
        self.part = Participation("demo", self.outbox, self.lives, lambda: 0.0)

    def lives(self, pid):
        self.asked.append(pid)
        return pid not in self.dead

    def take(self, pid, role="drive", *, over=False, client="a", who=None):
        line = line_identity(f"{client}-{pid}", 1)
        request = TakePart("t1", pid, who or f"notebook {pid}", role, over)
        self.outbox.forget()
        self.part.take_part(line, request, self.now_s)
        [(to, answer, _)] = self.outbox.clients
        assert to == line
        return answer

    def objection(self, pid, message=CELL, *, client="a", line=2):
        return self.part.find_objection(line_identity(f"{client}-{pid}", line), message, self.now_s)

    def hear(self, pid, client="a"):
        self.part.hear(line_identity(f"{client}-{pid}", 3), self.now_s)


@pytest.fixture
def house():
    return House()


def test_all_lines_of_a_client_are_known_by_their_identity():
    client = new_client()
    lines = [line_identity(client, number) for number in (1, 2, 11)]
    assert len(set(lines)) == 3
    assert {client_of(line) for line in lines} == {client.encode()}
    assert client_of(b"somebody") == b"somebody"
    assert new_client() != client


def test_the_first_one_drives(house):
    assert house.take(1) == PartTaken("t1", "drive", "notebook 1")
    assert house.objection(1) == ""


def test_a_second_process_is_told_who_drives_and_both_ways_out(house):
    house.take(1)
    refused = house.take(2)
    assert isinstance(refused, Refused)
    assert refused.error == "ClusterInUse"
    for word in ("'demo'", "notebook 1 (process 1) since ", "--watch", "--take-over"):
        assert word in refused.reason


def test_several_clients_of_one_process_are_one_driver(house):
    house.take(1)
    assert isinstance(house.take(1, client="b"), PartTaken)
    assert house.objection(1) == house.objection(1, client="b") == ""


def test_a_driver_whose_process_is_gone_has_left_its_place(house):
    house.take(1)
    house.dead.add(1)
    assert house.take(2) == PartTaken("t1", "drive", "notebook 2")


def test_a_driver_that_has_not_shown_itself_has_left_its_place(house):
    house.take(1)
    house.now_s += 14.0
    house.hear(1)
    house.now_s += 14.0
    assert isinstance(house.take(2), Refused), "C code may hold its interpreter for a while"
    house.now_s += 2.0
    assert isinstance(house.take(2), PartTaken)


def test_a_driver_that_says_it_goes_has_left_its_place(house):
    house.take(1)
    house.take(1, "visit")
    assert isinstance(house.take(2), PartTaken)


def test_the_place_is_kept_while_another_client_of_the_process_drives(house):
    house.take(1)
    house.take(1, client="b")
    house.take(1, "visit")
    assert isinstance(house.take(2), Refused)
    house.take(1, "visit", client="b")
    assert isinstance(house.take(2), PartTaken)


def test_who_was_taken_over_from_may_still_take_its_own_cell_back(house):
    house.take(1)
    house.take(2, over=True)
    assert house.objection(1, WithdrawCell("s1")) == ""
    assert "driven by notebook 2" in house.objection(1, InterruptCell("r"))
    assert house.objection(2) == "", "taking it back is no driving"


def test_a_driver_that_comes_back_drives_on_if_nobody_has_its_place(house):
    house.take(1)
    house.now_s += 60.0
    assert house.objection(1) == ""
    house.now_s += 60.0
    house.take(2)
    assert "driven by notebook 2" in house.objection(1)


def test_who_was_taken_over_from_is_told_by_whom_and_the_way_back(house):
    house.take(1)
    assert isinstance(house.take(2, over=True), PartTaken)
    assert house.objection(2) == ""
    text = house.objection(1)
    assert "driven by notebook 2 (process 2) since " in text
    assert "%dist_attach demo --take-over takes it back" in text
    assert house.objection(1, WatchTopology("w1")) == ""
    house.take(1, over=True)
    assert house.objection(1) == ""
    assert "driven by notebook 1" in house.objection(2)


def test_once_who_took_over_is_gone_the_former_driver_drives_again(house):
    house.take(1)
    house.take(2, over=True)
    house.dead.add(2)
    assert house.objection(1) == ""
    assert isinstance(house.take(3), Refused)


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
        TakePart("r", 2, "me"),
    ],
)
def test_a_watcher_may_look(house, message):
    house.take(1)
    assert house.take(2, "watch") == PartTaken("t1", "watch", "notebook 1")
    assert house.objection(2, message) == ""


@pytest.mark.parametrize("message", [CELL, InterruptCell("r"), StopCluster("r")])
def test_a_watcher_may_do_nothing_else(house, message):
    house.take(1)
    house.take(2, "watch")
    text = house.objection(2, message)
    assert "only watches" in text
    assert "driven by notebook 1" in text
    assert "%dist_attach demo --take-over" in text


def test_a_watcher_of_a_cluster_that_nobody_drives_need_not_take_over(house):
    assert house.take(2, "watch") == PartTaken("t1", "watch", "")
    text = house.objection(2)
    assert "%dist_attach demo." in text
    assert "driven" not in text


def test_a_process_that_only_watches_from_now_on_leaves_the_place(house):
    house.take(1)
    house.take(1, "watch", client="b")
    assert isinstance(house.take(2), PartTaken)
    assert "only watches" in house.objection(1, client="b")


def test_a_visitor_works_beside_the_driver(house):
    house.take(1)
    assert house.take(2, "visit") == PartTaken("t1", "visit", "notebook 1")
    assert house.objection(2, StopCluster("r")) == ""
    assert house.objection(1) == ""


def test_a_visit_of_the_driving_process_leaves_it_its_place(house):
    house.take(1)
    house.take(1, "visit", client="b")
    assert isinstance(house.take(2), Refused)


def test_who_drove_and_now_visits_has_left_its_place(house):
    house.take(1)
    house.take(1, "visit")
    assert isinstance(house.take(2), PartTaken)
    assert house.objection(1) == "", "a visitor may do what it came for"


def test_visits_cost_nothing_once_they_are_over(house):
    for number in range(500):
        house.take(1, "visit", client=f"page{number}")
    house.asked.clear()
    house.take(1, "visit", client="another")
    assert house.asked == [], "one process that lives on may send very many"


def test_a_client_that_has_said_nothing_is_a_visitor(house):
    house.take(1)
    assert house.part.find_objection(b"old", CELL, house.now_s) == ""


def test_an_unknown_role_is_refused(house):
    refused = house.take(1, "rule")
    assert refused.error == "UsageError"
    assert "drive, watch, visit" in refused.reason
