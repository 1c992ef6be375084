import io
import threading
from unittest.mock import Mock

import pytest

from jupyter_dist.agent.engines.zygote_process import ZygoteProcess, device_wishes


@pytest.mark.parametrize(
    ("device", "asked", "wishes"),
    [
        ("3", {}, {"CUDA_VISIBLE_DEVICES": "3"}),
        ("GPU-1a2b", {"X": "1"}, {"CUDA_VISIBLE_DEVICES": "GPU-1a2b"}),
        ("3", {"CUDA_VISIBLE_DEVICES": "0,3"}, {}),
        ("", {}, {}),
    ],
)
def test_a_rank_sees_its_own_device_unless_the_user_has_said_what_it_sees(device, asked, wishes):
    assert device_wishes(device, asked) == wishes


def test_a_line_that_cannot_be_read_keeps_no_later_one_from_being_told(capfd):
    process = ZygoteProcess.__new__(ZygoteProcess)
    lines = b'library: hello\n{"kind": "broken"}\n{"kind": "exited"}\n'
    process._process = Mock(stdout=io.BytesIO(lines))
    told, over = [], threading.Event()

    def take(event):
        if event.kind == "broken":
            raise ValueError("damaged")
        told.append(event.kind)

    process.listen(take, over.set)
    assert over.wait(10)
    assert told == ["exited"]
    log = capfd.readouterr().err
    assert "library: hello" in log
    assert "damaged" in log
