import signal

import pytest

from jupyter_dist.engine.execution.user_handlers import UserHandlers


@pytest.fixture
def handlers():
    before = {number: signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGUSR1)}
    yield UserHandlers()
    for number, handler in before.items():
        signal.signal(number, handler)


def boom(*_):
    raise ZeroDivisionError


def test_between_cells_what_a_handler_raises_is_printed(handlers, capfd):
    signal.signal(signal.SIGALRM, boom)
    handlers.contain()
    signal.raise_signal(signal.SIGALRM)
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_in_the_next_cell_it_is_raised_again(handlers):
    signal.signal(signal.SIGALRM, boom)
    for _ in range(2):
        handlers.contain()
        handlers.release()
        assert signal.getsignal(signal.SIGALRM) is boom
    with pytest.raises(ZeroDivisionError):
        signal.raise_signal(signal.SIGALRM)


def test_what_was_set_meanwhile_stays(handlers):
    signal.signal(signal.SIGALRM, boom)
    handlers.contain()
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    handlers.release()
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_IGN


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.default_int_handler])
def test_what_is_no_function_of_users_stays(handlers, handler):
    signal.signal(signal.SIGUSR1, handler)
    handlers.contain()
    assert signal.getsignal(signal.SIGUSR1) is handler


def test_a_cell_that_sets_no_handler_costs_one_look(handlers, monkeypatch):
    calls = []
    monkeypatch.setattr(
        "jupyter_dist.engine.execution.user_handlers.set_handler", lambda *call: calls.append(call)
    )
    handlers.contain()
    handlers.release()
    assert not calls
