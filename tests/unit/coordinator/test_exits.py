import signal

import pytest

from jupyter_dist.coordinator.exits import describe_exit, last_words
from jupyter_dist.protocol import host_agent_pb2 as pb


@pytest.mark.parametrize(
    ("code", "signal_number", "text"),
    [
        (0, 0, "its process exited with code 0"),
        (3, 0, "its process exited with code 3"),
        (0, signal.SIGSEGV, "its process was killed by SIGSEGV"),
        (0, 63, "its process was killed by signal 63"),
    ],
)
def test_an_exit_is_a_sentence(code, signal_number, text):
    assert describe_exit(code, signal_number) == text


def test_a_kill_hints_at_memory():
    assert describe_exit(0, signal.SIGKILL) == (
        "its process was killed by SIGKILL (on Linux often: out of memory)"
    )


def words(cluster, *, offsets=(0, 0), **tails):
    cluster.roster[1].offsets = offsets
    found = last_words(pb.EngineExited(rank=1, **tails), cluster.roster[1])
    return None if found is None else {out.kind: out.text for out in found.outputs}


def test_only_what_has_not_arrived_yet_is_given(cluster):
    assert words(cluster, offsets=(6, 0), stdout_tail=b"hello world") == {"stdout": "world"}


def test_a_tail_that_begins_after_what_arrived_is_given_whole(cluster):
    assert words(cluster, offsets=(10, 0), stdout_tail=b"world", stdout_offset=50) == {
        "stdout": "world"
    }


def test_a_tail_that_begins_before_what_arrived_is_cut(cluster):
    assert words(cluster, offsets=(102, 0), stdout_tail=b"abcdef", stdout_offset=100) == {
        "stdout": "cdef"
    }


def test_there_are_no_last_words_when_everything_arrived(cluster):
    assert words(cluster, offsets=(5, 5), stdout_tail=b"hello", stderr_tail=b"world") is None


def test_each_stream_has_its_own_last_words(cluster):
    assert words(cluster, offsets=(1, 2), stdout_tail=b"abc", stderr_tail=b"xyz") == {
        "stdout": "bc",
        "stderr": "z",
    }


def test_bytes_that_are_not_text_are_shown(cluster):
    assert words(cluster, stderr_tail=b"\xff!") == {"stderr": "\\xff!"}
