import pytest

from tests.costs import budget

TEXT = """\
# The head.
[exactness]
messages = [0.0, 0]
syscalls = [1.0, 20.0]
"idle.messages" = [0.5, 3.0]

[start]

[cell]
2.client = { messages = 4, syscalls = 100 }
8.client = { messages = 16, syscalls = 100 }

[idle]
2.client = { messages = 10 }
"""
COUNTED = {
    ("cell", 2, "client", "messages"): 4,
    ("cell", 2, "client", "syscalls"): 100,
    ("cell", 8, "client", "messages"): 16,
    ("cell", 8, "client", "syscalls"): 100,
    ("idle", 2, "client", "messages"): 10,
}
NAME = "budget.toml:11 cell.8.client.messages: "


def test_what_is_as_budgeted_is_no_problem():
    assert budget.problems(TEXT, COUNTED) == {}


@pytest.mark.parametrize("number", [17, 11])
def test_a_raise_and_a_loose_line_fail_with_the_line(number):
    (problem,) = budget.problems(
        TEXT, COUNTED | {("cell", 8, "client", "messages"): number}
    ).values()
    assert problem.startswith(f"{NAME}{number} counted, 16 budgeted")


def test_a_count_that_scatters_may_scatter_and_no_more():
    key = ("cell", 2, "client", "syscalls")
    assert budget.problems(TEXT, COUNTED | {key: 220}) == {}
    assert budget.problems(TEXT, COUNTED | {key: 1}) == {}
    assert len(budget.problems(TEXT, COUNTED | {key: 221})) == 1


def test_of_several_counts_the_least_counts():
    disturbed = {key: number + 1 for key, number in COUNTED.items()}
    assert budget.least([disturbed, COUNTED, disturbed]) == COUNTED
    once_more = {("cell", 8, "client", "messages"): 5}  # one size only was counted again
    assert budget.least([COUNTED, once_more]) == COUNTED | once_more


def test_a_process_may_be_less_exact_than_others():
    text = TEXT.replace("messages = [0.0, 0]", 'messages = [0.0, 0]\n"client.messages" = [0.5, 0]')
    assert budget.problems(text, COUNTED | {("cell", 8, "client", "messages"): 24}) == {}


def test_an_event_may_be_less_exact_than_others():
    key = ("idle", 2, "client", "messages")
    assert budget.problems(TEXT, COUNTED | {key: 18}) == {}
    assert len(budget.problems(TEXT, COUNTED | {key: 19})) == 1


def test_each_line_has_a_count_and_each_count_a_line():
    less = {key: number for key, number in COUNTED.items() if key[1] != 8}
    assert len(budget.problems(TEXT, less)) == 2
    more = COUNTED | {("push", 2, "client", "messages"): 1}
    assert len(budget.problems(TEXT, more)) == 1


def test_without_strace_system_calls_are_no_problem():
    less = {key: number for key, number in COUNTED.items() if key[3] != "syscalls"}
    assert budget.problems(TEXT, less) == {}
    assert len(budget.problems(TEXT, {})) == 3


def test_a_renewed_budget_has_what_was_counted_and_its_head():
    counted = COUNTED | {("cell", 8, "client", "messages"): 40}
    text = budget.renewed(TEXT, counted)
    assert text.startswith(TEXT[: TEXT.index("[start]")])
    assert budget.problems(text, counted) == {}
