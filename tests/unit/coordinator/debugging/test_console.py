import pytest

from jupyter_dist.coordinator.debugging.console import DebugConsole, Order

HERE = "In[5]:7"
ALL = dict.fromkeys(range(4), HERE)


@pytest.fixture
def console():
    console = DebugConsole()
    console.come(0, is_first=True)
    return console


def test_a_plain_command_is_for_all_that_are_stopped(console):
    assert console.who(ALL) == f"ranks 0-3 at {HERE}"
    assert console.read("p 2", ALL) == Order((0, 1, 2, 3), "p 2")
    assert console.read("", ALL) == Order((0, 1, 2, 3), ""), "pdb repeats the last one"


def test_ranks_before_a_command_get_it_and_alone_they_are_chosen(console):
    assert console.read("2-3 p x.shape", ALL) == Order((2, 3), "p x.shape")
    assert console.read("n", ALL).ranks == (0, 1, 2, 3), "that was for once"
    assert console.read(" 2 ", ALL) == Order(())
    assert console.read("n", ALL).ranks == (2,)
    assert console.who(ALL) == f"rank 2 at {HERE}, ranks 0-1,3 are stopped, too"
    assert console.read("all n", ALL).ranks == (0, 1, 2, 3)
    assert console.read("n", {0: HERE, 1: HERE}).ranks == (0, 1), "rank 2 has gone on"
    console.read("all", ALL)
    assert console.read("n", ALL).ranks == (0, 1, 2, 3)


@pytest.mark.parametrize("text", ["3 n", "2,9 n", "0--1 n", "3"])
def test_ranks_that_are_not_stopped_get_nothing_and_are_named(console, text):
    some = {0: HERE, 2: "train.py:1"}
    assert console.read(text, some) == Order(())
    assert "\n" in console.who(some)
    assert console.who(some) == f"rank 0 at {HERE}, rank 2 at train.py:1"


@pytest.mark.parametrize("text", ["all(x)", "x2", "1.5", "-1", "allx n", "p 1"])
def test_what_only_looks_like_ranks_is_a_command(console, text):
    assert console.read(text, ALL) == Order((0, 1, 2, 3), text)


def test_at_first_all_that_run_are_waited_for_but_not_for_long(console):
    assert not console.is_ready({0: HERE}, {0, 1})
    assert console.is_ready({0: HERE, 1: HERE}, {0, 1})
    console.look()
    console.look()
    assert console.is_ready({0: HERE}, {0, 1})


def test_after_a_command_those_that_got_it_are_waited_for(console):
    console.read("0-1 n", ALL)
    rest = {2: HERE, 3: HERE}
    assert not console.is_ready(rest, ALL)
    console.come(0, is_first=False)
    assert not console.is_ready({0: HERE, **rest}, ALL)
    console.leave(1)
    assert console.is_ready({0: HERE, **rest}, ALL)
