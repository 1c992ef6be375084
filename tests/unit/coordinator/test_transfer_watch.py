from jupyter_dist.coordinator.questions import Answers
from jupyter_dist.coordinator.transfer_watch import TransferWatch
from jupyter_dist.model.stacks import RankStacks


class Questions:
    def __init__(self):
        self.asked = []

    def ask(self, ranks, about, timeout_s, now_s, on_answered):
        self.asked.append((ranks, now_s))
        problems = dict.fromkeys(ranks, "it does not answer")
        on_answered(Answers({rank: RankStacks("none") for rank in ()}, problems))


def test_who_takes_long_is_named_once_and_again_after_a_while():
    questions = Questions()
    watch = TransferWatch("packing", questions)
    assert watch.look({0, 1}, 5.0) == "", "nothing was sent to them yet"
    watch.begin(0, 5.0)
    watch.begin(1, 5.0)
    watch.begin(2, 6.0)
    assert watch.begun == {0, 1, 2}
    assert watch.look({0, 1, 2}, 5.9) == ""
    assert questions.asked == [((0, 1), 5.9)]
    told = watch.look({0, 1, 2}, 7.5)
    assert told.startswith("ranks 0-1 have been packing it for 2 s (where")
    assert watch.look({0, 1}, 9.0) == ""
    assert watch.note == told.replace("2 s", "4 s")
    assert watch.look({0, 1}, 17.6).startswith("ranks 0-1 have been packing it for 13 s")
    assert watch.look({1}, 17.7).startswith("rank 1 has been packing it for 13 s")
    assert watch.look(set(), 18.0) == ""
    assert watch.note == ""
