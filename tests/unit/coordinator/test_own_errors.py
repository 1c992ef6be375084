import pytest

from jupyter_dist.coordinator.own_errors import FATAL, OwnErrors


@pytest.fixture
def told(monkeypatch):
    monkeypatch.delenv(FATAL)
    return []


@pytest.fixture
def errors(told):
    errors = OwnErrors(told.append, lambda: True)
    errors.log_path = "/tmp/here.log"
    return errors


def fail(errors, name):
    try:
        {}[name]
    except KeyError as error:
        errors.survive(error)


def test_an_error_is_written_down_and_told(errors, told, capsys):
    fail(errors, "localhost")
    assert told == [errors.note]
    for part in ("KeyError: 'localhost'", "test_own_errors.py:", errors.log_path):
        assert part in errors.note
    assert "Traceback" in capsys.readouterr().err


def test_the_same_error_is_told_once_and_another_one_too(errors, told, capsys):
    for name in ("a", "a", "b", "a"):
        fail(errors, name)
    assert len(told) == 2
    assert errors.note == told[1]
    assert capsys.readouterr().err.count("Traceback") == 2


def test_before_ranks_have_state_none_is_survived(told):
    with pytest.raises(KeyError):
        fail(OwnErrors(told.append, lambda: False), "a")
    assert told == []


def test_none_is_survived_where_they_are_fatal(errors, told, monkeypatch):
    monkeypatch.setenv(FATAL, "fatal")
    with pytest.raises(KeyError):
        fail(errors, "a")
    assert told == []
