import importlib.metadata
from unittest.mock import Mock

import pytest

from jupyter_dist.cluster.ipyparallel.controller import check_ipyparallel, ipyparallel
from jupyter_dist.errors import FrameworkError
from jupyter_dist.frameworks.ipyparallel import client
from jupyter_dist.protocol.messages import ControllerEnded, ControllerReady, EndController


@pytest.mark.parametrize("version", ["9.0.0", "9.2.0", "9.10.1.dev0", "10.0.0"])
def test_versions_that_work_are_accepted(monkeypatch, version):
    monkeypatch.setattr(importlib.metadata, "version", lambda _: version)
    check_ipyparallel()


@pytest.mark.parametrize("version", ["8.8.0", "7.1.0", "6.3.0"])
def test_a_version_that_is_too_old_is_named_with_the_next_step(monkeypatch, version):
    monkeypatch.setattr(importlib.metadata, "version", lambda _: version)
    with pytest.raises(FrameworkError, match=f"ipyparallel {version} .*pip install"):
        check_ipyparallel()


def test_without_ipyparallel_the_next_step_is_named(monkeypatch):
    missing = Mock(side_effect=importlib.metadata.PackageNotFoundError("ipyparallel"))
    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(FrameworkError, match="pip install 'ipyparallel"):
        check_ipyparallel()


class Controlled:
    """A session whose coordinator has a controller; remembers what it is asked for."""

    is_far = False

    def __init__(self):
        self.asked = []

    def _new_line(self):
        return self

    def new_request_id(self):
        return "r1"

    def close(self): ...

    def ask(self, request, answer_type, **_):
        self.asked.append(request)
        if answer_type is ControllerReady:
            return ControllerReady("r1", b'{"pid": 1}', (0,)), []
        return ControllerEnded("r1", was_running=True), []


def test_who_cannot_connect_leaves_the_controller_again(monkeypatch):
    never = Mock(side_effect=TimeoutError("Hub connection request timed out"))
    monkeypatch.setattr(client, "RanksClient", never)
    session = Controlled()
    with pytest.raises(FrameworkError, match=r"cannot connect .*timed out.* again"):
        ipyparallel(session)
    assert session.asked[1:] == [EndController("r1", is_left_to_others=True)]
