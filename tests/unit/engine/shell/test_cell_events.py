"""An interrupt in a callback before or after a cell ends the cell; an error of one does not."""

import pytest

EVENTS = ["pre_execute", "pre_run_cell", "post_execute", "post_run_cell"]


@pytest.fixture
def on(made, shell):
    """Call something at an event of the shell, until the test is over."""
    registered = []

    def register(event, call):
        shell.events.register(event, call)
        registered.append((event, call))

    yield register
    for event, call in registered:
        shell.events.unregister(event, call)


def raising(error):
    def call(*_):
        raise error

    return call


@pytest.mark.parametrize("event", EVENTS)
def test_an_interrupt_of_a_callback_is_one_of_the_cell(event, on, shell):
    called = []
    on(event, raising(KeyboardInterrupt()))
    on(event, lambda *_: called.append(event))
    try:
        error = shell.run_cell("ran = True", store_history=False).error_in_exec
    except KeyboardInterrupt as raised:  # behind the cell, for who has called
        error = raised
    assert isinstance(error, KeyboardInterrupt)
    assert called == [event]
    assert ("ran" in shell.user_ns) == event.startswith("post")


@pytest.mark.parametrize("event", EVENTS)
def test_an_error_of_a_callback_is_told_and_the_cell_runs(event, on, shell, capsys):
    on(event, raising(ValueError("of a library")))
    assert shell.run_cell("ran = True", store_history=False).success
    assert shell.user_ns["ran"]
    assert event in capsys.readouterr().out
    assert "of a library" in "".join(shell.last_traceback)
