"""What a rank answers while its main thread is inside of a cell."""

import queue
import threading
import warnings
from unittest.mock import Mock

import pytest

from jupyter_dist.engine.observation.observer import MOST_WAITING, PATIENCE_S, Observer
from jupyter_dist.model.ranks.profiles import ProfileBegun
from jupyter_dist.model.ranks.stacks import RankStacks
from jupyter_dist.protocol.messages import (
    BeginProfile,
    CompleteCode,
    EndProfile,
    InspectName,
    ListNames,
    NoAnswer,
    Question,
    ReadStacks,
)

WITHIN_S = 10


class Desk:
    """Asks as the link does."""

    def __init__(self, shell):
        self.shell = shell
        self.answers = queue.Queue()
        self.rank = 3
        self.observer = Observer(shell, lambda: self.rank, self.answers.put)

    def ask(self, about, request_id="q1"):
        self.post(about, request_id)
        answered = self.answers.get(timeout=WITHIN_S)
        assert (answered.rank, answered.request_id) == (self.rank, request_id)
        return answered.answer

    def post(self, about, request_id="q1"):
        self.observer.ask(Question(request_id, about))

    def run(self, code, label=3):
        """Run a cell in which `look()` reads the stacks; gives those of its last call."""
        seen = []
        self.shell.execution_count = label
        self.shell.current_cell = code
        self.shell.push({"look": lambda: seen.append(self.ask(ReadStacks()))})
        result = self.shell.run_cell(code, store_history=False)
        assert result.success, result.error_in_exec
        return seen[-1]

    def close(self):
        self.shell.builtin_trap.__exit__(None, None, None)


@pytest.fixture
def desk(shell):
    desk = Desk(shell)
    yield desk
    desk.close()


# --- stacks ---


def told(stacks):
    return [str(frame) for frame in stacks.main.frames]


def test_the_calls_of_the_cell_are_told_from_the_cell_on(desk):
    stacks = desk.run("def work(n):\n    look()\n\nwork(1)")
    frames = stacks.main.frames
    assert stacks.source == "python"
    assert told(stacks)[:2] == ["In[3]:4: work(1)", "In[3]:2 in work: look()"]
    assert frames[2].function == "<lambda>"
    assert frames[2].site.startswith(f"{__file__}:")


def test_the_code_of_a_cell_whose_file_cannot_be_read_is_told(desk, monkeypatch):
    monkeypatch.setattr("linecache.getline", lambda *_: "")
    assert told(desk.run("x = 1\nlook()"))[0] == "In[3]:2: look()"


def test_a_call_into_this_package_is_the_last_that_is_told(desk):
    inner = "exec(compile('def ours(look): look()', text.__file__, 'exec'))\nours(look)"
    stacks = desk.run(f"import jupyter_dist.text.lists as text\n{inner}")
    assert told(stacks) == ["In[3]:3: ours(look)"]


def test_a_cell_that_awaits_tells_where_it_is_suspended(desk):
    code = (
        "import asyncio, threading\n"
        "async def step():\n"
        "    loop = asyncio.get_running_loop()\n"
        "    done = loop.create_future()\n"
        "    def tell():\n"
        "        look()\n"
        "        loop.call_soon_threadsafe(done.set_result, None)\n"
        "    threading.Timer(0.2, tell).start()\n"
        "    await done\n"
        "await step()"
    )
    suspended = ["In[3]:10: await step()", "In[3]:9 in step: await done"]
    assert told(desk.run(code))[:2] == suspended


def test_threads_of_the_user_are_told_with_their_names_and_ours_are_not(desk):
    code = (
        "import threading\n"
        "is_over = threading.Event()\n"
        "def load():\n"
        "    is_over.wait()\n"
        "thread = threading.Thread(target=load, name='loader', daemon=True)\n"
        "thread.start()\n"
        "look()\n"
        "is_over.set()\n"
        "thread.join()"
    )
    main, *others = desk.run(code).threads
    assert main.is_main
    (loader,) = [thread for thread in others if thread.name == "loader"]
    assert str(loader.frames[0]) == "In[3]:4 in load: is_over.wait()"
    assert not [thread for thread in others if thread.name.startswith("observer")]


def test_the_first_and_the_last_calls_of_a_deep_recursion_are_told(desk):
    stacks = desk.run("def deep(n):\n    look() if n == 0 else deep(n - 1)\ndeep(500)")
    frames = stacks.main.frames
    assert len(frames) == 200
    assert frames[0].site == "In[3]:3"
    assert any(frame.function == "<lambda>" for frame in frames[-9:])


# --- names, completions, inspection ---


def test_the_variables_of_cells_are_listed(desk):
    desk.run("weights = [1, 2]\nlook()")
    names = desk.ask(ListNames(("w*",))).names
    assert [(info.name, info.preview) for info in names] == [("weights", "[1, 2]")]


@pytest.mark.parametrize(
    ("cell", "code", "completed"),
    [
        ("import types\nrun = types.SimpleNamespace(loss=1)", "x = 1\nrun.lo", "x = 1\nrun.loss"),
        ("losses = {'train': 1}", "print(1)\nprint(los", "print(1)\nprint(losses"),
    ],
)
def test_names_and_attributes_are_completed(desk, cell, code, completed):
    desk.run(f"{cell}\nlook()")
    found = desk.ask(CompleteCode(code, len(code)))
    assert completed in [code[: found.start] + match for match in found.matches]
    assert found.end == len(code)


def test_a_completion_touches_no_filters_of_warnings_and_warns_nobody(desk):
    desk.run("look()")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        before = list(warnings.filters)
        desk.ask(CompleteCode("pri", 3))
        assert warnings.filters == before
    assert not heard


@pytest.mark.parametrize("cursor", [-5, 10**6])
def test_a_cursor_outside_the_code_is_brought_inside(desk, cursor):
    assert desk.ask(CompleteCode("prin", cursor)).end in (0, 4)


def test_an_object_is_inspected(desk):
    desk.run("def scale(x):\n    'Scale it.'\n    return x\nlook()")
    assert "Scale it." in desk.ask(InspectName("scale")).data["text/plain"]
    assert "Source:" in desk.ask(InspectName("scale", detail=1)).data["text/plain"]
    assert desk.ask(InspectName("nowhere.to.be.found")).data == {}


def test_what_the_shell_puts_into_builtins_stays_there_while_it_is_asked(desk):
    import builtins

    seen = []
    desk.shell.push({"check": lambda: seen.append(hasattr(builtins, "get_ipython"))})
    desk.ask(InspectName("len"))
    desk.run("look()\ncheck()")
    desk.ask(InspectName("len"))
    assert seen == [True]
    assert hasattr(builtins, "get_ipython")


# --- bad ends ---


class Stuck:
    """An object that does not come to an end of describing itself."""

    def __init__(self):
        self.is_asked, self.may_end = threading.Event(), threading.Event()

    def __str__(self):
        self.is_asked.set()
        self.may_end.wait(WITHIN_S)
        return "at last"


@pytest.fixture
def stuck(desk):
    """An observer that is asked about such an object."""
    stuck = Stuck()
    desk.shell.push({"stuck": stuck})
    desk.post(InspectName("stuck"), "slow")
    assert stuck.is_asked.wait(WITHIN_S)
    yield stuck
    stuck.may_end.set()


def test_stacks_are_told_while_another_answer_takes_for_ever(desk, stuck):
    assert desk.ask(ReadStacks()).main is not None


def test_who_asks_behind_an_endless_answer_is_told_so(desk, stuck, monkeypatch):
    monkeypatch.setattr("jupyter_dist.engine.observation.observer.PATIENCE_S", 0.0)
    answer = desk.ask(ListNames())
    assert isinstance(answer, NoAnswer)
    assert "stuck?" in answer.reason
    assert PATIENCE_S > 0


def test_no_more_than_some_questions_wait(desk, stuck):
    for number in range(MOST_WAITING):
        desk.post(ListNames(), f"q{number}")
    assert isinstance(desk.ask(ListNames(), "last"), NoAnswer)


def test_an_answer_that_fails_says_why_and_the_next_one_comes(desk, monkeypatch):
    with monkeypatch.context() as patch:
        failing = Mock(side_effect=LookupError("no luck"))
        patch.setattr("jupyter_dist.engine.observation.observer.list_names", failing)
        answer = desk.ask(ListNames())
    assert isinstance(answer, NoAnswer)
    assert "LookupError: no luck" in answer.reason
    desk.rank = 1  # in whose name the next answer is given
    assert desk.ask(ListNames()).rss_bytes > 0


def test_a_profile_is_begun_and_ended_by_questions_while_a_cell_runs(desk):
    begun = desk.ask(BeginProfile("p1", "sampling", 60.0))
    assert isinstance(begun, ProfileBegun)
    assert isinstance(desk.ask(BeginProfile("p2", "memory", 60.0)), NoAnswer)
    assert isinstance(desk.ask(ReadStacks()), RankStacks), "other questions go on"
    found = desk.ask(EndProfile("p1"))
    assert (found.kind, found.began_ns >= begun.began_ns) == ("sampling", True)
