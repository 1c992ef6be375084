from hypothesis import given
from hypothesis import strategies as st

from tests.matrix import each_value_once, few_or_many, only

PAIRS = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("uvwxyz")), unique=True)


@given(PAIRS)
def test_the_unmarked_pairs_have_every_value_and_none_is_missing(pairs):
    cases = each_value_once(pairs)
    few = [case.values for case in cases if not case.marks]
    assert [case.values for case in cases] == pairs
    assert {value for pair in few for value in pair} == {value for pair in pairs for value in pair}
    assert len(few) <= len({first for first, _ in pairs}) + len({second for _, second in pairs})


def test_a_length_is_short_or_long_or_as_the_environment_says(monkeypatch):
    def lengths():
        return [
            (case.values[0], [mark.name for mark in case.marks])
            for case in few_or_many("FAULTS", 5, 50)
        ]

    assert lengths() == [(5, ["timeout"]), (50, ["timeout", "nightly"])]
    monkeypatch.setenv("FAULTS", "1000")
    assert lengths() == [(1000, ["timeout"])]
    assert few_or_many("FAULTS", 5, 50)[0].marks[0].args == (3000,)


def test_of_the_cases_that_are_not_chosen_the_night_has_those_that_were_named():
    cases = only("ab", "abcd", at_night="bd")
    assert cases[:2] == ["a", "b"]
    assert [(case.values[0], case.marks[0].name) for case in cases[2:]] == [
        ("c", "slow"),
        ("d", "nightly"),
    ]
