import errno
import os
import time

import pytest

from jupyter_dist.probe.host_answers import MARKER_PREFIX, HostAnswers


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def answers(home):
    return HostAnswers(lambda: {"fact": 1})


def test_hello_report_and_clock_are_answered(answers):
    assert answers.answer({"do": "hello"}) == {}
    assert answers.answer({"do": "report"}) == {"fact": 1}
    assert answers.answer({"do": "clock"})["time_s"] > 0


def test_an_unknown_command_is_refused(answers):
    with pytest.raises(KeyError):
        answers.answer({"do": "dance"})


def test_a_marker_is_seen_in_the_home_it_is_in_until_its_maker_leaves(answers, home):
    assert answers.answer({"do": "touch", "name": "x"}) == {"problem": ""}
    assert answers.answer({"do": "look", "names": ["x", "y"]}) == {"seen": ["x"]}
    answers.leave()
    assert answers.answer({"do": "look", "names": ["x", "y"]}) == {"seen": []}
    assert list(home.iterdir()) == []


def test_a_marker_is_private_and_never_replaces_a_file(answers, home):
    answers.answer({"do": "touch", "name": "x"})
    assert (home / f"{MARKER_PREFIX}x").stat().st_mode & 0o777 == 0o600
    assert answers.answer({"do": "touch", "name": "x"}) == {"problem": "File exists"}


def test_markers_that_others_had_to_leave_are_removed_when_they_are_old(answers, home):
    for name, age_s in (("old", 4000), ("new", 10)):
        path = home / f"{MARKER_PREFIX}{name}"
        path.touch()
        os.utime(path, (0, time.time() - age_s))
    answers.answer({"do": "touch", "name": "mine"})
    left = {path.name.removeprefix(MARKER_PREFIX) for path in home.iterdir()}
    assert left == {"new", "mine"}


def test_a_home_that_cannot_be_written_is_told(monkeypatch):
    monkeypatch.setenv("HOME", "/nowhere")
    answer = HostAnswers(dict).answer({"do": "touch", "name": "x"})
    assert answer == {"problem": os.strerror(errno.ENOENT)}
