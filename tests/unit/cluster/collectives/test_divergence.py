import re

import pytest
from fakes.recorded import call, cell, host, rank

from jupyter_dist.cluster.collectives.collective_table import tabulate

DONE = (cell(1, 0, 900),)


def verdict(*ranks, world_size=None):
    return tabulate([host("a", *ranks)], {}, world_size or len(ranks), 20).verdict


def reduces(*numbers, end_ms=True, **more):
    return [
        call("all_reduce", number, 10 * number, 10 * number + 1 if end_ms else 0, **more)
        for number in numbers
    ]


def sends(*numbers):
    return [call("send", number, 10 * number, 10 * number + 1, root=1) for number in numbers]


def steps(*numbers, operation="jit(step)", **more):
    """Programs of JAX that ranks have called."""
    named = {"dtype": "float32", "shape": "4", "group": "0-2~jax", **more}
    return [call(operation, number, 10 * number, 10 * number + 1, **named) for number in numbers]


@pytest.mark.parametrize(
    "ranks",
    [
        pytest.param([reduces(1, 2), reduces(1, 2)], id="the same calls"),
        pytest.param([[], []], id="nothing was called"),
        pytest.param([reduces(1, end_ms=False)] * 2, id="all wait in one call"),
        pytest.param([reduces(1), reduces(1, nbytes=99)], id="what need not be the same"),
        pytest.param(
            [[call("broadcast", 1, 5, 6, root=0, site=f"In[1]:{line}")] for line in (2, 4)],
            id="a root on a line of its own",
        ),
        pytest.param([[call("broadcast", 1, 5, 6, root=0)], []], id="a root that is done computes"),
        pytest.param([sends(1, 2), [call("recv", 1, 50, root=0)], []], id="messages"),
        pytest.param([reduces(1) + steps(1, group="0-1~jax")] * 2, id="frameworks and ours"),
        pytest.param([reduces(1, 2, 3), rank(1, *reduces(3), omitted=2)], id="forgotten"),
        pytest.param([reduces(1), rank(1, problem="no file")], id="unread"),
        pytest.param([rank(0, *reduces(1), cells=()), rank(1, cells=())], id="outside cells"),
    ],
)
def test_ranks_that_have_not_gone_apart_as_far_as_is_known_have_no_verdict(ranks):
    told = [rank(n, *each) if isinstance(each, list) else each for n, each in enumerate(ranks)]
    assert verdict(*told) == ""


def test_who_waits_and_who_has_not_come_is_told_with_lines():
    waiting = [*reduces(1), call("barrier", 2, 48_000, site="In[1]:9")]
    late = rank(1, *reduces(1))
    assert verdict(rank(0, *waiting), late, rank(2, *waiting)) == (
        "ranks 0,2 wait in barrier() #2 at In[1]:9 for 12 s; rank 1 has not called it yet: its "
        "last call was all_reduce(float32[4], sum) #1 at In[1]:7"
    )


ELSEWHERE = call("barrier", 4, 50_000, group="1,2", site="In[1]:3")


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ([rank(1), rank(2)], "ranks 1-2 .* yet"),
        ([rank(1, cells=())], "rank 1 .* begun "),
        ([rank(1, cells=DONE), rank(2, cells=DONE)], "ranks 1-2 .* done "),
        ([rank(1, has_ended=True)], "rank 1 .* gone "),
        (
            [rank(1, ELSEWHERE), rank(2, ELSEWHERE)],
            r"ranks 1-2 .* barrier\(\) #4 of group 1,2 at In\[1\]:3 ",
        ),
    ],
)
def test_what_those_do_that_have_not_come_is_told(others, told):
    assert re.search(f"; {told}", verdict(rank(0, call("barrier", 1, 5)), *others))


@pytest.mark.parametrize(
    "other",
    [
        {"operation": "barrier", "dtype": "", "shape": "", "reduction": ""},
        {"dtype": "int8"},
        {"shape": "5"},
        {"reduction": "max"},
        {"root": 1},
    ],
)
def test_every_difference_that_matters_is_found(other):
    operation = other.pop("operation", "all_reduce")
    odd = call(operation, 2, 20, site="In[1]:9", **other)
    waiting = [*reduces(1), *reduces(2, end_ms=False)]
    text = verdict(rank(0, *waiting), rank(1, *reduces(1), odd), rank(2, *waiting))
    usual, other = text.split("; ")
    assert usual.startswith("ranks 0,2 ")
    assert usual.endswith(" all_reduce(float32[4], sum) #2 at In[1]:7 for 60 s")
    assert other.startswith("rank 1 ")
    assert other.endswith(f" {odd} #2 at In[1]:9 for 60 s")


def test_calls_that_failed_because_they_differ_are_told_as_calls():
    text = verdict(
        rank(0, call("barrier", 1, 5, 6, has_failed=True)), rank(1, *reduces(1, has_failed=True))
    )
    assert text == (
        "rank 0 called barrier() #1 at In[1]:7; "
        "rank 1 called all_reduce(float32[4], sum) #1 at In[1]:7"
    )


def test_equal_calls_on_different_lines_are_two_calls_most_likely():
    assert verdict(rank(0, *reduces(1)), rank(1, *reduces(1, site="In[1]:9"))) == (
        "rank 0 called all_reduce(float32[4], sum) #1 at In[1]:7; "
        "rank 1 called all_reduce(float32[4], sum) #1 at In[1]:9"
    )


def test_the_first_difference_counts():
    first = [*reduces(1), call("barrier", 2, 20, 21), *reduces(3)]
    second = [*reduces(1), *reduces(2), call("barrier", 3, 30, 31)]
    assert " #2 " in verdict(rank(0, *first), rank(1, *second))
    assert " #3 " not in verdict(rank(0, *first), rank(1, *second))


def test_who_goes_on_without_others_is_told_of_the_first_that_they_lack():
    root = [call("broadcast", 1, 5, 6, root=0), call("barrier", 2, 7)]
    text = verdict(rank(0, *root), rank(1))
    assert text.startswith("rank 0 called broadcast(root=0) #1 at In[1]:7; rank 1 ")


def test_a_call_of_a_group_concerns_its_members_only():
    waiting = call("barrier", 1, 5, group="0,2")
    assert verdict(rank(0, waiting), rank(1), rank(2, waiting)) == ""
    told = verdict(rank(0, waiting), rank(1), rank(2)).split("; ")
    assert [each[:7] for each in told] == ["rank 0 ", "rank 2 "]
    assert "#1 of group 0,2 at In[1]:7" in told[0]


def test_a_rank_that_was_lost_inside_is_told():
    text = verdict(
        rank(0, call("barrier", 1, 5, 9, has_failed=True)),
        rank(1, call("barrier", 1, 5), has_ended=True),
        rank(2),
    )
    assert [part.split(" in ")[0] for part in text.split("; ")[:2]] == [
        "rank 0 failed",
        "rank 1 was lost",
    ]
    assert "; rank 2 " in text


def test_the_last_cell_that_went_wrong_is_told_of():
    cells = [cell(number, 100 * number, 100 * number + 90) for number in (1, 2, 3)]
    calls = [call("barrier", number, 100 * number + 5, 100 * number + 6) for number in (1, 2, 3)]
    odd = [
        call("barrier", number, 100 * number + 5, 100 * number + 6, root=number)
        for number in (1, 2)
    ]
    text = verdict(rank(0, *calls, cells=cells), rank(1, *odd, calls[2], cells=cells))
    assert "barrier(root=2) #2" in text
    assert "#1" not in text


def test_who_has_not_called_a_program_of_jax_is_told_with_lines():
    waiting = [*steps(1), call("jit(step)", 2, 48_000, site="In[1]:9", group="0-2~jax")]
    late = rank(1, *steps(1), cells=DONE)
    told = verdict(rank(0, *waiting), late, rank(2, *waiting))
    assert told.startswith("ranks 0,2 ")
    assert " jit(step) #2 of JAX at In[1]:9 for 12 s; rank 1 " in told


def test_different_programs_of_jax_and_equal_ones_on_different_lines_are_told():
    text = verdict(
        rank(0, *steps(1, 2)),
        rank(1, *steps(1), *steps(2, operation="jit(evaluate)")),
        rank(2, *steps(1, 2)),
    )
    assert text == (
        "ranks 0,2 called jit(step)(float32[4]) #2 of JAX at In[1]:7; "
        "rank 1 called jit(evaluate)(float32[4]) #2 of JAX at In[1]:7"
    )
    other = steps(1, site="In[1]:9")
    assert "#1 of JAX at In[1]:9" in verdict(rank(0, *steps(1)), rank(1, *other), rank(2, *other))
