"""What becomes of the trial, with sockets of this machine in the place of ssh's."""

import socket
import threading
from dataclasses import dataclass

import pytest

from jupyter_dist.launch.proxy.forwarding import explain_no_way


@dataclass
class Ssh:
    words: str = ""
    has_ended: bool = False

    def ends_soon(self):
        return self.has_ended

    def explain(self):
        return "the connection broke. See."


@pytest.fixture
def listen(tmp_path):
    """Listen on a socket, and answer each client with this, or close; None: say nothing."""
    listener = socket.socket(socket.AF_UNIX)
    path, over = tmp_path / "clients", threading.Event()
    threads = []

    def begin(answer):
        listener.bind(str(path))
        listener.listen()

        def serve():
            with listener.accept()[0] as connection:
                if answer:
                    connection.send(answer)
                if answer is None:
                    over.wait(20)

        threads.append(threading.Thread(target=serve, daemon=True))
        threads[0].start()
        return path

    yield begin
    over.set()
    for thread in threads:
        thread.join(20)
    listener.close()


def test_a_coordinator_that_answers_is_reached(listen):
    assert explain_no_way(listen(b"\xff"), Ssh()) == ""


def test_a_connection_that_is_taken_and_closed_is_not_forwarded(listen):
    path = listen(b"")
    told = explain_no_way(path, Ssh("channel 2: open failed: administratively prohibited"))
    assert "AllowTcpForwarding" in told
    assert "administratively prohibited" in told


def test_an_ssh_that_has_ended_says_why(listen):
    assert explain_no_way(listen(b""), Ssh(has_ended=True)) == "the connection broke. See."


def test_silence_is_no_refusal(listen):
    told = explain_no_way(listen(None), Ssh(), timeout_s=0.05)
    assert "0.05 s" in told
    assert "AllowTcpForwarding" not in told


def test_a_socket_that_ssh_has_not_made_is_told_in_its_words(tmp_path):
    told = explain_no_way(tmp_path / "clients", Ssh("Could not request local forwarding."))
    assert str(tmp_path) in told
    assert "Could not request local" in told
    assert "AllowTcpForwarding" not in told
