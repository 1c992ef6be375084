import pytest

from jupyter_dist.text.plurals import agree, count_of, escape, fit


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 lines"), (1, "1 line"), (2, "2 lines"), (1200, "1,200 lines")]
)
def test_a_noun_fits_its_number(number, text):
    assert count_of(number, "line") == text


def test_words_fit_the_things_they_are_said_of():
    assert [fit([None] * number, "is", "are") for number in range(3)] == ["are", "is", "are"]
    assert fit({7}, ("is", "it"), ("are", "them")) == ("is", "it")


def test_a_clause_agrees_with_its_number():
    clause = f"{{it}} {{has}} {escape('{x}')} in {{its}} class{{nes}}"
    assert [agree(clause, 1), agree(clause, 2)] == [
        "it has {x} in its class",
        "they have {x} in their classes",
    ]
