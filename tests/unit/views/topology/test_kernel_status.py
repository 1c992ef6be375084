import asyncio
import threading

import pytest

from jupyter_dist.views.topology.kernel_status import stay_busy


class Lock:
    """Held for as many looks as the test says."""

    def __init__(self, looks):
        self.looks = looks

    def locked(self):
        self.looks -= 1
        return self.looks >= 0


class Kernel:
    """Writes down what it says of itself."""

    iopub_socket = None

    def __init__(self, looks):
        self.said = []
        self.session = self.io_loop = self
        self._main_asyncio_lock = Lock(looks)

    def get_parent(self, _channel):
        return {"of": "the click"}

    def _topic(self, name):
        return name.encode()

    def send(self, _socket, kind, content, parent, ident):
        assert (kind, parent, ident) == ("status", {"of": "the click"}, b"status")
        self.said.append(content["execution_state"])

    def add_callback(self, call):
        call()


def click(kernel, *, is_beside=True):
    """Handle a click as ipykernel does: it says idle when our part is done."""

    async def handle():
        stay_busy(kernel)
        kernel.said.append("idle")
        await asyncio.sleep(0)

    thread = threading.Thread(target=lambda: asyncio.run(handle()))
    if is_beside:
        thread.start()
        thread.join()
    else:
        asyncio.run(handle())
    return kernel.said


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        (9, ["idle", "busy"]),
        (2, ["idle", "busy", "idle"]),  # the cell ends meanwhile
        (1, ["idle"]),
        (0, ["idle"]),
    ],
)
def test_a_kernel_says_busy_after_a_click_as_long_as_its_cell_runs(looks, said):
    assert click(Kernel(looks)) == said


def test_a_click_that_waited_for_the_cell_changes_nothing():
    assert click(Kernel(9), is_beside=False) == ["idle"]


def test_what_is_no_kernel_of_ipykernel_7_is_left_alone():
    stay_busy(None)
    stay_busy(object())
