import msgspec

from jupyter_dist.coordinator.cells.transfers import TransferWatch
from jupyter_dist.coordinator.observation.rank_queries import Answers
from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.errors import MalformedMessage
from jupyter_dist.protocol.messages import FetchObject, ObjectFetched, ObjectPulled, PullObject
from jupyter_dist.protocol.unreadable import Unreadable


def test_a_rank_that_is_lost_is_a_problem_if_it_has_not_answered_and_no_wait(begin_pull, cluster):
    pull = begin_pull(PullObject("r1", "x", ranks=(0, 1)))
    pull.on_answer(ObjectFetched(0, "r1"), [b"0"])
    for rank in (0, 1):
        pull.on_lost(rank, "killed")
    pull.tick(1.0)
    assert pull.is_over
    (answer,) = cluster.sender.told(ObjectPulled)
    assert list(answer.problems) == [1]
    assert answer.problems[1].endswith(": killed")


def test_answers_to_other_requests_and_second_answers_are_dropped(begin_pull, cluster):
    pull = begin_pull(PullObject("r2", "x", ranks=(0, 1)))
    pull.on_answer(ObjectFetched(0, "r1"), [b"old"])
    pull.on_answer(ObjectFetched(0, "r2"), [b"new"])
    pull.on_answer(ObjectFetched(0, "r2"), [b"again"])
    pull.tick(1.0)
    assert not pull.is_over
    pull.on_answer(ObjectFetched(1, "r2"), [b"1"])
    pull.tick(2.0)
    assert cluster.sender.clients[-1][2] == [b"new", b"1"]


def test_an_answer_that_nobody_can_read_is_the_problem_of_its_rank(begin_pull, cluster):
    pull = begin_pull(PullObject("r1", "x", ranks=(0, 2)))
    pull.on_answer(ObjectFetched(0, "r1"), [b"0"])
    pull.on_unreadable(2, MalformedMessage("no map"))
    pull.tick(1.0)
    [answer] = cluster.sender.told(ObjectPulled)
    assert "no map" in answer.problems[2]
    # Whether the rank is idle only the rank can say.
    assert cluster.roster.ranks_in(EngineState.BUSY) == [0, 2]
    assert isinstance(cluster.sender.sent_to_ranks(FetchObject)[2][-1], FetchObject)


def test_other_words_that_nobody_can_read_are_no_answer(begin_pull, cluster):
    pull = begin_pull(PullObject("r1", "x", ranks=(0,)))
    body = msgspec.msgpack.encode({"type": "TaskBegan"})
    pull.on_unreadable(0, Unreadable(body, "no label"))
    pull.tick(1.0)
    assert not pull.is_over


# --- who takes long ---


class Questions:
    def __init__(self):
        self.asked = []

    def ask(self, ranks, about, timeout_s, now_s, on_answered):
        self.asked.append((ranks, now_s))
        problems = dict.fromkeys(ranks, "it does not answer")
        on_answered(Answers({}, problems))


def test_who_takes_long_is_named_once_and_again_after_a_while():
    questions = Questions()
    watch = TransferWatch("packing", questions)
    assert watch.look({0, 1}, 5.0) == "", "nothing was sent to them yet"
    watch.begin((0, 1), 5.0)
    watch.begin((2,), 6.0)
    assert watch.begun == {0, 1, 2}
    assert watch.look({0, 1, 2}, 5.9) == ""
    assert questions.asked == [((0, 1), 5.9)]
    told = watch.look({0, 1, 2}, 7.5)
    assert told.startswith("ranks 0-1 ")
    assert " 2 s (where" in told
    assert watch.look({0, 1}, 9.0) == ""
    assert watch.note == told.replace("2 s", "4 s")
    assert " 13 s" in watch.look({0, 1}, 17.6)
    assert watch.look({1}, 17.7).startswith("rank 1 ")
    assert watch.look(set(), 18.0) == ""
    assert watch.note == ""
