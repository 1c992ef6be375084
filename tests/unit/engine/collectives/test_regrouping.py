import errno
import os
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from jupyter_dist.engine import __main__ as engine_main
from jupyter_dist.engine.__main__ import Engine
from jupyter_dist.engine.channel.channel import Delivery
from jupyter_dist.model.ranks.initialized import Formed
from jupyter_dist.protocol.messages import Hello, NotReady, Regroup


@pytest.fixture
def communicator():
    return Mock()


@pytest.fixture
def engine(communicator, monkeypatch):
    """An engine of rank 2, without its process; `posted` collects what it says."""
    monkeypatch.setattr(engine_main, "bind_listener", Mock())
    engine_main.bind_listener.return_value.getsockname.return_value = ("10.0.0.1", 4000)
    made = object.__new__(Engine)
    made._rank = 2
    made._config = SimpleNamespace(bind_host="10.0.0.1", memory_proof="")
    made._executor, made._recorder = SimpleNamespace(), SimpleNamespace()
    made._frameworks = SimpleNamespace(formed=lambda: (Formed("jax", 4, 3, 7),))
    made._namespace = SimpleNamespace(communicator=communicator)
    made.posted = []
    made._channel = SimpleNamespace(answer=made.posted.append)
    return made


def test_a_rank_that_regroups_says_hello_under_its_new_number(engine, communicator):
    made_before = (Formed("jax", 4, 3, 7),)
    engine._handle(Delivery(Regroup(5, 1), []))
    assert communicator.close.called
    assert engine.posted == [Hello(1, 5, os.getpid(), "10.0.0.1:4000", made_before)]
    assert (engine._executor.rank, engine._recorder.rank) == (1, 1)


@pytest.mark.parametrize("fails", ["close what it had", "listen"])
def test_a_rank_that_cannot_regroup_says_so_and_lives(engine, communicator, fails):
    broken = engine_main.bind_listener if fails == "listen" else communicator.close
    broken.side_effect = problem = OSError(errno.EMFILE, "no descriptor left")
    engine._handle(Delivery(Regroup(5, 1), []))
    assert engine.posted == [NotReady(1, 5, str(problem))]
