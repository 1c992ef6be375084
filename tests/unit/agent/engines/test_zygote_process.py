import io
import threading
from unittest.mock import Mock

from jupyter_dist.agent.engines.zygote_process import ZygoteProcess


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
