"""What is told of a command that has failed; for the words of real programs see test_failures.py."""

import pytest

from jupyter_dist.launch.ssh.ssh_failures import explain_ssh, tells_end
from jupyter_dist.model.spec.cluster_spec import HostSpec


def test_a_command_to_try_has_the_users_own_ssh_words():
    host = HostSpec("[fd00::1]", ssh=("ssh", "-F", "/my files/config"))
    failure = explain_ssh(host, 255, "Host key verification failed.\r\n")
    assert "`ssh -F '/my files/config' fd00::1`" in failure.next_step


@pytest.mark.parametrize(
    ("status", "said", "is_end"),
    [
        (0, "", True),
        (1, "jupyter-dist: it broke", True),
        (137, "", True),
        (255, "", True),  # a signal ended it there, of which ssh says nothing
        (255, "joined\nsome words of a rank\n", True),
        (255, "Connection to b closed by remote host.", False),
        (255, "client_loop: send disconnect: Broken pipe", False),
        (255, "Read from remote host b: Connection reset by peer", False),
        (255, "Timeout, server b not responding.", False),
        (-9, "", False),
    ],
)
def test_the_end_of_an_agent_is_told_from_the_end_of_the_way_to_it(status, said, is_end):
    host = HostSpec("b", 1, ssh=("ssh",))
    assert tells_end(host, status, said) is is_end


@pytest.mark.parametrize("option", ["-q", "-Tq", "-oLogLevel=QUIET"])
def test_an_ssh_that_may_say_nothing_proves_nothing_by_it(option):
    host = HostSpec("b", 1, ssh=("ssh", option))
    assert not tells_end(host, 255, "")
    assert tells_end(host, 1, "")
