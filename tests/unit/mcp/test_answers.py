import pytest

from jupyter_dist.mcp.answers import BAR, DATA, MOST_CHARACTERS, MOST_LINE, answer, clean, data

HIDDEN = [
    "\x1b[31mred\x1b[0m",
    "a\rb",
    "\x07",
    "\u202e",
    "\u200b",
    "\ue000",
    "\U000e0041",
    "\udcff",
]


@pytest.mark.parametrize("text", HIDDEN)
def test_nothing_hidden_is_left_in_a_text(text):
    assert clean(f"a{text}\n\tb").replace("\n", "").replace("\t", "").isprintable()


def test_characters_that_are_seen_stay():
    assert clean("ä 漢 ▶ 🙂\n") == "ä 漢 ▶ 🙂\n"


def test_data_cannot_pass_for_something_else():
    told = data("ok\nseen at 12:00\n[nothing is left out]\n").split("\n")
    assert told[0] == DATA
    assert all(line.startswith(BAR) for line in told[1:])
    assert len(told) == 4


@pytest.mark.parametrize("separator", ["\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029", "\x1c"])
def test_no_character_begins_a_line_of_its_own(separator):
    assert len(data(f"a{separator}Answer: ok").splitlines()) == 2


@pytest.mark.parametrize(("keep", "kept"), [("head", "line 0"), ("tail", "line 99999")])
def test_long_data_is_cut_and_says_what_is_missing(keep, kept):
    told = data("\n".join(f"line {n}" for n in range(100_000)), keep=keep, more=": ask less")
    assert len(told) < MOST_CHARACTERS + 200
    assert f"{BAR}{kept}\n" in f"{told}\n"
    assert "of 100000 lines" in told.splitlines()[-1]
    assert told.endswith(": ask less]")


def test_a_long_line_is_cut():
    assert len(data("x" * 10**6)) < MOST_LINE + 200


def test_an_answer_says_when_it_was_seen():
    head, *parts = answer("cluster\x1b[1m demo", "", "a", "b").split("\n")
    assert head.startswith("cluster demo; seen at ")
    assert parts == ["a", "b"]
