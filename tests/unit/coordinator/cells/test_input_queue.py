import pytest

from jupyter_dist.coordinator.agents.message_sender import NOBODY
from jupyter_dist.coordinator.cells.input_queue import REATTACH_S, SILENCE_LIMIT_S, InputQueue
from jupyter_dist.protocol.messages import (
    AnswerInput,
    AskInput,
    AskPerson,
    InputAnswered,
    InputOver,
    InputShown,
)

ME, OTHER = b"me", b"other"


def asks(rank, number=1, prompt="name? ", **more):
    return AskInput(rank, "cell-1", number, prompt, **more)


def says(rank, number=1, text="Ada", problem=""):
    return AnswerInput("cell-1", rank, number, text, problem)


class World:
    """A queue, and what it has told."""

    def __init__(self, cluster, client=ME, **options):
        self.sender, self.roster = cluster.sender, cluster.roster
        self.alive, self.interrupted = {7}, set()
        self.queue = InputQueue(
            client,
            cluster.roster,
            cluster.sender,
            self.interrupted.__contains__,
            lives=self.alive.__contains__,
            **options,
        )

    def asked(self, client=ME):
        return [(ask.rank, ask.number) for ask in self.sender.told(AskPerson, client)]

    def over(self, client=ME):
        return [(over.rank, over.number) for over in self.sender.told(InputOver, client)]

    def answers(self):
        """(rank, number, text or problem) of each."""
        sent = self.sender.engines
        return [
            (rank, each.number, each.problem or each.text)
            for rank, each, _ in sent
            if isinstance(each, InputAnswered)
        ]

    def waits(self):
        return [engine.asks for engine in self.roster.engines]


@pytest.fixture
def world(cluster):
    return World(cluster)


def test_one_is_asked_after_the_other(world):
    world.queue.take(asks(2))
    world.queue.take(asks(0))
    assert world.asked() == [(2, 1)]
    assert world.waits() == ["waits to ask for input", "", "waits for input", ""]
    world.queue.on_answer(ME, says(2))
    assert world.asked() == [(2, 1), (0, 1)]
    world.queue.on_answer(ME, says(0, text=None))
    assert world.answers() == [(2, 1, "Ada"), (0, 1, None)]
    assert world.waits() == [""] * 4
    assert world.over() == [], "it has answered itself"


def test_answers_of_others_and_to_others_do_not_count(world):
    world.queue.on_answer(ME, says(2))
    world.queue.take(asks(2))
    world.queue.on_answer(OTHER, says(2))
    world.queue.on_answer(ME, says(2, number=2))
    world.queue.on_shown(OTHER, InputShown("cell-1", 2, 1, 8), 1.0)
    assert world.answers() == []


def test_what_is_withdrawn_is_not_asked_any_more(world):
    for rank in (1, 2, 3):
        world.queue.take(asks(rank))
    world.queue.withdraw(2, 1)
    world.queue.withdraw(2, 9)
    world.queue.withdraw(1, 1)
    assert world.over() == [(1, 1)]
    assert world.asked() == [(1, 1), (3, 1)]
    assert world.waits() == ["", "", "", "waits for input"]


def test_ranks_that_are_interrupted_are_passed_over(world):
    for rank in (1, 2, 3):
        world.queue.take(asks(rank))
    world.interrupted |= {1, 2}
    world.queue.withdraw(1, 1)
    assert world.asked() == [(1, 1), (3, 1)]
    world.queue.withdraw(2, 1)
    assert world.over() == [(1, 1)]


def test_a_rank_whose_cell_has_ended_is_told_so(world):
    world.queue.take(asks(1))
    world.queue.take(asks(1, 2))
    world.queue.take(asks(3))
    world.queue.end(1)
    assert world.answers() == [(1, 1, "its cell has ended"), (1, 2, "its cell has ended")]
    assert world.over() == [(1, 1)]
    assert world.asked()[-1] == (3, 1)


def test_a_client_that_cannot_ask_is_not_asked_again(world):
    world.queue.take(asks(1))
    world.queue.take(asks(3))
    world.queue.on_answer(ME, says(1, problem="no terminal"))
    world.queue.take(asks(2))
    assert world.asked() == [(1, 1)]
    assert world.answers() == [(rank, 1, "no terminal") for rank in (1, 3, 2)]
    assert world.waits() == [""] * 4


def test_work_of_the_cluster_itself_has_no_one_to_ask(cluster):
    world = World(cluster, NOBODY)
    world.queue.take(asks(1))
    assert world.answers() == [(1, 1, "the cluster itself runs this cell")]
    world.queue.join(OTHER)
    world.queue.take(asks(1, 2))
    assert world.asked(OTHER) == [(1, 2)]


def test_who_joins_is_asked_first_and_the_one_before_where_that_cannot(world):
    world.queue.take(asks(1))
    world.queue.join(OTHER)
    assert (world.over(), world.asked(OTHER)) == ([(1, 1)], [(1, 1)])
    world.queue.on_answer(OTHER, says(1, problem="no terminal"))
    assert world.asked() == [(1, 1), (1, 1)]
    world.queue.on_answer(ME, says(1))
    assert world.answers() == [(1, 1, "Ada")]


@pytest.mark.parametrize("way", ["dead", "silent"])
def test_a_client_that_is_gone_leaves_no_rank_waiting(world, way):
    world.queue.tick(100.0)
    world.queue.take(asks(1))
    world.queue.on_shown(ME, InputShown("cell-1", 1, 1, 7), 100.0)
    for second in range(int(SILENCE_LIMIT_S) + 1):
        world.queue.tick(100.0 + second)
    assert world.answers() == []
    if way == "dead":
        world.alive.clear()
    world.queue.tick(100.5 + SILENCE_LIMIT_S)
    ((rank, _, told),) = world.answers()
    assert rank == 1
    assert "not there any more" in told


def test_a_client_is_not_silent_while_this_process_is_held_up(world):
    world.queue.take(asks(1))
    world.queue.tick(100.0)
    world.queue.tick(1000.0)
    assert world.answers() == []
    world.queue.tick(1000.5)
    assert world.answers() == []


def test_one_answer_is_for_all_who_ask_the_same_as_often(cluster):
    world = World(cluster, is_shared=True)
    for rank in (0, 1):
        world.queue.take(asks(rank))
    world.queue.take(asks(2, is_password=True))
    assert world.sender.told(AskPerson)[0].is_for_all
    world.queue.on_answer(ME, says(0))
    world.queue.take(asks(3, 5))
    assert world.answers() == [(0, 1, "Ada"), (1, 1, "Ada"), (3, 5, "Ada")]
    assert world.asked()[1:] == [(2, 1)]
    world.queue.take(asks(0, 2))
    world.queue.on_answer(ME, says(2, text="key"))
    assert world.asked()[2:] == [(0, 2)]


class TestDebugger:
    """Ranks that are stopped at a prompt, all of which get what is typed."""

    @pytest.fixture
    def stopped(self, world):
        for engine in world.roster.engines:
            engine.start_work("In[5]", 0.0)
        for rank in (1, 0, 3, 2):
            world.queue.take(asks(rank, place="In[5]:7"))
        return world

    def test_it_is_one_prompt_for_all_of_them(self, stopped):
        (ask,) = stopped.sender.told(AskPerson, ME)
        assert "0-3" in ask.who
        stopped.queue.on_answer(ME, says(ask.rank, text="2-3 p x"))
        assert sorted(stopped.answers()) == [(2, 1, "p x"), (3, 1, "p x")]
        assert len(stopped.asked()) == 1, "they have not come back"
        for rank in (2, 3):
            stopped.queue.take(asks(rank, 2, place="In[5]:7"))
        assert len(stopped.asked()) == 2

    def test_to_choose_ranks_asks_again(self, stopped):
        stopped.queue.on_answer(ME, says(1, text="2"))
        assert stopped.answers() == []
        assert stopped.asked() == [(1, 1), (1, 1)]

    def test_a_rank_that_does_not_come_back_is_not_waited_for(self, stopped):
        stopped.queue.on_answer(ME, says(1, text="2 n"))
        for now_s in (1.0, 1.25):
            stopped.queue.tick(now_s)
        assert stopped.asked() == [(1, 1), (1, 1)]

    def test_the_end_of_input_lets_them_go_on(self, stopped):
        stopped.queue.on_answer(ME, says(1, text=None))
        assert sorted(stopped.answers()) == [(rank, 1, "q") for rank in range(4)]

    def test_when_the_one_who_asks_is_gone_another_one_can_go_on(self, stopped):
        stopped.queue.on_shown(ME, InputShown("cell-1", 1, 1, 8), 1.0)
        stopped.queue.tick(1.1)
        stopped.queue.take(asks(1, 2))
        assert stopped.answers() == [(1, 2, stopped.answers()[0][2])], "no one answers that"
        stopped.queue.join(OTHER)
        assert stopped.asked(OTHER) == [(1, 1)]

    def test_when_no_other_one_comes_they_go_on(self, stopped):
        stopped.queue.on_shown(ME, InputShown("cell-1", 1, 1, 8), 1.0)
        stopped.queue.tick(1.1)
        stopped.queue.tick(1.0 + REATTACH_S)
        assert stopped.answers() == []
        stopped.queue.tick(1.2 + REATTACH_S)
        assert len(stopped.answers()) == 4

    def test_where_no_person_can_be_asked_they_go_on_at_once(self, stopped):
        stopped.queue.on_answer(ME, says(1, problem="takes no input"))
        assert stopped.answers() == [(rank, 1, "takes no input") for rank in (1, 0, 3, 2)]
