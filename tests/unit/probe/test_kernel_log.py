import os

import pytest

from jupyter_dist.probe import kernel_log
from jupyter_dist.probe.kernel_log import KernelLog

KILLED = "Memory cgroup out of memory: Killed process {} (python3) total-vm:9kB"
XID = "NVRM: Xid (PCI:0000:3b:00): 79, {}, GPU has fallen off the bus."
BUS = "00000000:3B:00.0"


@pytest.fixture
def log(tmp_path, monkeypatch):
    """A log that is a pipe: each write is a record, as with /dev/kmsg."""
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    monkeypatch.setattr(kernel_log, "_pid_namespace", lambda: kernel_log._FIRST_PID_NAMESPACE)
    monkeypatch.setattr(kernel_log.os, "lseek", lambda *_: 0)
    log = KernelLog(str(path))
    writer = os.open(path, os.O_WRONLY)

    def say(text, at_s=100.0):
        os.write(writer, f"3,1,2,-;{text}\n SUBSYSTEM=pci\n".encode())
        log.read(at_s)

    log.say = say
    yield log
    log.close()
    os.close(writer)


def test_a_kill_is_found_by_the_process(log):
    log.say(KILLED.format(4711))
    assert log.kills(4711, 90.0) == [KILLED.format(4711)]
    assert log.kills(471, 90.0) == []


def test_a_kill_of_another_process_is_told_apart(log):
    assert not log.names_others(12, 90.0)
    log.say(KILLED.format(4711))
    assert log.names_others(12, 90.0)
    assert not log.names_others(4711, 90.0)
    assert not log.names_others(12, 110.0)


def test_what_was_said_before_is_left_out(log):
    log.say(KILLED.format(4711), at_s=80.0)
    assert log.kills(4711, 90.0) == []


def test_in_a_container_process_numbers_mean_nothing(log):
    log._knows_pids = False
    log.say(KILLED.format(4711))
    assert log.kills(4711, 90.0) == []


def test_an_error_of_a_gpu_is_found_by_its_address(log):
    log.say(XID.format("pid='<unknown>', name=<unknown>"))
    assert len(log.gpu_errors(4711, BUS, 90.0)) == 1
    assert log.gpu_errors(4711, "00000000:3C:00.0", 90.0) == []
    assert log.gpu_errors(4711, "", 90.0) == []


def test_an_error_that_another_process_caused_is_not_its_own(log):
    log.say(XID.format("pid=12, name=python3"))
    assert log.gpu_errors(4711, BUS, 90.0) == []
    assert len(log.gpu_errors(12, BUS, 90.0)) == 1


def test_other_lines_are_not_kept(log):
    log.say("usb 1-1: new device")
    assert list(log._lines) == []


def test_a_log_that_may_not_be_read_is_empty(tmp_path):
    log = KernelLog(str(tmp_path / "none"))
    log.read(1.0)
    assert log.kills(1, 0.0) == []
    log.close()
