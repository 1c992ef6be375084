from types import SimpleNamespace
from typing import get_args
from unittest.mock import Mock

import pytest

from jupyter_dist.engine.channel.link import Link
from jupyter_dist.protocol.messages import Leave, RunCell, ToEngine


@pytest.fixture
def handler():
    return Mock()


@pytest.fixture
def link(handler):
    link = Link(SimpleNamespace(info=SimpleNamespace(rank=0)), handler)
    yield link
    link._waker.close()


def test_every_message_of_the_coordinator_is_handled(link):
    assert set(link.handlers) == set(get_args(ToEngine))


def test_a_cell_is_announced_and_waits_for_the_main_thread(link, handler):
    cell = RunCell("cell-1", "x = 1", (0,), "In[1]")
    link.handlers[RunCell](cell, [])
    handler.on_beginning.assert_called_once_with()
    assert link.inbox.get().message is cell
    assert link.is_cell_waiting


def test_what_is_no_work_is_not_announced(link, handler):
    link.handlers[Leave](Leave(), [])
    handler.on_beginning.assert_not_called()
    assert link.inbox.get().message == Leave()
    assert not link.is_cell_waiting
