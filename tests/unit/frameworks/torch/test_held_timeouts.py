"""Time-outs of torch are raised while ranks are in a debugger, and put back afterwards."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from jupyter_dist.frameworks.torch.held_timeouts import HeldTimeouts
from jupyter_dist.frameworks.torch.private_c10d import C10d

GIVEN, ANOTHER = timedelta(seconds=4), timedelta(minutes=30)


class Backend:
    def __init__(self, timeout):
        self.options = SimpleNamespace(_timeout=timeout)

    def _set_default_timeout(self, timeout):
        self.options._timeout = timeout


class Store:
    def __init__(self):
        self.timeout = GIVEN

    def set_timeout(self, timeout):
        self.timeout = timeout


class Scene:
    """Two groups of one rank, and their store."""

    def __init__(self):
        self.standing = {"0 cpu": Backend(GIVEN), "1 cpu": Backend(ANOTHER)}
        self.store = Store()
        self.timeouts = HeldTimeouts(lambda: tuple(self.standing.items()), lambda: self.store)

    def read(self):
        backends = [each.options._timeout for each in self.standing.values()]
        return [*backends, *([self.store.timeout] if self.store else [])]


@pytest.fixture
def scene():
    return Scene()


def test_each_has_more_time_meanwhile_and_its_own_again_afterwards(scene):
    for _ in range(2):
        for _ in range(3):
            scene.timeouts.follow(True)
            assert min(scene.read()) > timedelta(days=1)
        for _ in range(3):
            scene.timeouts.follow(False)
            assert scene.read() == [GIVEN, ANOTHER, GIVEN]


def test_a_group_that_comes_meanwhile_is_raised_too_and_one_that_goes_is_forgotten(scene):
    scene.timeouts.follow(True)
    del scene.standing["1 cpu"]
    scene.standing["2 cpu"] = Backend(ANOTHER)
    scene.store = None
    scene.timeouts.follow(True)
    assert min(scene.read()) > timedelta(days=1)
    scene.timeouts.follow(False)
    assert scene.read() == [GIVEN, ANOTHER]


def test_what_the_program_says_meanwhile_stays(scene):
    scene.timeouts.follow(True)
    scene.standing["0 cpu"]._set_default_timeout(ANOTHER)
    scene.timeouts.follow(False)
    assert scene.read() == [ANOTHER, ANOTHER, GIVEN]


def test_what_torch_refuses_once_is_not_tried_in_each_cell(scene):
    def refuse(_timeout):
        raise RuntimeError("the group is being destroyed")

    scene.timeouts.follow(True)
    scene.standing["0 cpu"]._set_default_timeout = refuse
    with pytest.raises(RuntimeError):
        scene.timeouts.follow(False)
    scene.timeouts.follow(False)


class BackendWithoutOptions:
    """MPI, UCC and backends of a program: torch has the property and refuses to answer."""

    def _set_default_timeout(self, timeout):
        raise AssertionError("it has no time-out")

    @property
    def options(self):
        raise RuntimeError("Backend mpi does not implement getBackendOptions")


def test_backends_without_a_time_out_are_passed_over():
    def find(device):
        if device.type == "cuda":
            raise RuntimeError("no backend for this device")
        return {"cpu": Backend(GIVEN), "xpu": BackendWithoutOptions()}.get(device.type, object())

    devices = [SimpleNamespace(type=name) for name in ("cuda", "xpu", "mps", "cpu")]
    group = SimpleNamespace(group_name="0", _device_types=devices, _get_backend=find)
    module = SimpleNamespace(GroupMember=SimpleNamespace(WORLD=group))
    assert [name for name, _ in C10d(module).backends()] == ["0 cpu"]
