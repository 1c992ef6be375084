import os
from itertools import count
from unittest.mock import Mock

import msgspec

from jupyter_dist.coordinator.ipyparallel.controller_process import ControllerProcess
from jupyter_dist.frameworks.ipyparallel.controller_messages import Told, Unregistered
from jupyter_dist.protocol import unreadable


def test_a_line_of_the_controller_that_cannot_be_read_costs_no_other(capsys, monkeypatch):
    monkeypatch.setattr(unreadable, "_logged", count(1))  # others may have logged enough
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    process = ControllerProcess.__new__(ControllerProcess)
    process._decoder, process._rest = msgspec.json.Decoder(Told), b""
    word = Unregistered((3,))
    try:
        process._process = Mock()
        process._process.stdout.fileno.return_value = reading
        os.write(writing, b"hello there\n" + msgspec.json.encode(word) + b"\n\xff\n")
        assert process.hear() == [word]
    finally:
        os.close(reading)
        os.close(writing)
    assert "hello there" in capsys.readouterr().err
