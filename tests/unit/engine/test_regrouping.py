import errno
import os
from types import SimpleNamespace

import pytest

from jupyter_dist.engine import __main__ as engine_main
from jupyter_dist.engine.__main__ import Engine
from jupyter_dist.engine.link import Delivery
from jupyter_dist.model.formed import Formed
from jupyter_dist.protocol.messages import Hello, NotReady, Regroup


class FakeListener:
    """Listens nowhere."""

    def getsockname(self):
        return ("10.0.0.1", 4000)


class FakeCommunicator:
    """Remembers that it was closed; `problem` is raised instead."""

    def __init__(self):
        self.problem = None
        self.is_closed = False

    def close(self):
        if self.problem is not None:
            raise self.problem
        self.is_closed = True


@pytest.fixture
def communicator():
    return FakeCommunicator()


@pytest.fixture
def engine(communicator, monkeypatch):
    """An engine of rank 2, without its process; `posted` collects what it says."""
    monkeypatch.setattr(engine_main, "bind_listener", lambda _host: FakeListener())
    made = object.__new__(Engine)
    made._rank = 2
    made._birth = SimpleNamespace(bind_host="10.0.0.1")
    made._executor, made._recorder = SimpleNamespace(), SimpleNamespace()
    made._frameworks = SimpleNamespace(formed=lambda: (Formed("jax", 4, 3, 7),))
    made._namespace = SimpleNamespace(communicator=communicator)
    made.posted = []
    made._link = SimpleNamespace(post=made.posted.append)
    return made


def too_many_files(_host=""):
    raise OSError(errno.EMFILE, "Too many open files")


def test_a_rank_that_regroups_says_hello_under_its_new_number(engine, communicator):
    made_before = (Formed("jax", 4, 3, 7),)
    engine._handle(Delivery(Regroup(5, 1), []))
    assert communicator.is_closed
    assert engine.posted == [Hello(1, 5, os.getpid(), "10.0.0.1:4000", made_before)]
    assert (engine._executor.rank, engine._recorder.rank) == (1, 1)


def test_a_rank_that_cannot_listen_says_so_and_lives(engine, monkeypatch):
    monkeypatch.setattr(engine_main, "bind_listener", too_many_files)
    engine._handle(Delivery(Regroup(5, 1), []))
    assert engine.posted == [NotReady(1, 5, "[Errno 24] Too many open files")]


def test_a_rank_that_cannot_close_what_it_had_says_so_and_lives(engine, communicator):
    communicator.problem = OSError(errno.EMFILE, "Too many open files")
    engine._handle(Delivery(Regroup(5, 1), []))
    assert engine.posted == [NotReady(1, 5, "[Errno 24] Too many open files")]
