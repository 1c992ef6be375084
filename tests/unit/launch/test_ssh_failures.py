"""What OpenSSH 9.2, sshd, shells and Python said in real failures; only the names are others."""

import re

import pytest

from jupyter_dist.launch.remote_command import NO_PYTHON, SETUP_FAILED
from jupyter_dist.launch.ssh_failures import explain_ssh, last_lines, tells_end
from jupyter_dist.launch.ssh_sayings import FROM_HOST, FROM_SSH
from jupyter_dist.model.spec import HostSpec

HOST = HostSpec("nodeA", port=2222, user="bob")
PLAIN = HostSpec("nodeA")
CHANGED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\r
Someone could be eavesdropping on you right now (man-in-the-middle attack)!\r
It is also possible that a host key has just been changed.\r
The fingerprint for the ED25519 key sent by the remote host is
SHA256:b+MDm3ZYAOhAo8VhgFko5oSeqe15pPy2YzIFCO93Dn4.\r
Please contact your system administrator.\r
Add correct host key in /home/bob/.ssh/known_hosts to get rid of this message.\r
Offending ED25519 key in /home/bob/.ssh/known_hosts:3\r
  remove with:\r
  ssh-keygen -f "/home/bob/.ssh/known_hosts" -R "[nodea]:2222"\r
"""
CHANGED_AND_STRICT = f"""{CHANGED}\
Host key for [nodea]:2222 has changed and you have requested strict checking.\r
Host key verification failed.\r
"""
REVOKED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
@       WARNING: REVOKED HOST KEY DETECTED!               @\r
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
The ED25519 host key for [nodea]:2222 is marked as revoked.\r
This could mean that a stolen key is being used to\r
impersonate this host.\r
ED25519 host key for [nodea]:2222 was revoked and you have requested strict checking.\r
Host key verification failed.\r
"""
UNPROTECTED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @\r
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
Permissions 0644 for '/home/bob/.ssh/id' are too open.\r
It is required that your private key files are NOT accessible by others.\r
This private key will be ignored.\r
Load key "/home/bob/.ssh/id": bad permissions\r
bob@nodea: Permission denied (publickey).\r
"""
USAGE = """\
unknown option -- Z\r
usage: ssh [-46AaCfGgKkMNnqsTtVvXxYy] [-B bind_interface]
           [-b bind_address] [-c cipher_spec] [-D [bind_address:]port]
"""
PROXY_CLOSED = """\
kex_exchange_identification: Connection closed by remote host\r
Connection closed by UNKNOWN port 65535\r
"""
DENIED = "bob@nodea: Permission denied (publickey).\r\n"
BANNER = """\
Authorized use only.
Permission denied to everybody else.
Connection refused at the gate.
Host key verification failed, you may think.
"""
PROFILE = """\
/etc/profile: line 3: module: command not found
bash: warning: setlocale: LC_ALL: cannot change locale (en_US.UTF-8)
Permission denied (publickey) is what intruders see here.
"""
OLD_PYTHON = """\
Unknown option: -P
usage: /usr/bin/python3 [option] ... [-c cmd | -m mod | file | -] [arg] ...
Try `python -h' for more information.
"""
NOT_INSTALLED = (
    "/opt/env/bin/python: Error while finding module specification for 'jupyter_dist.agent' "
    "(ModuleNotFoundError: No module named 'jupyter_dist')\n"
)
BROKEN_INSTALL = """\
Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
  File "<frozen runpy>", line 88, in _run_code
  File "/opt/env/lib/python3.11/site-packages/jupyter_dist/agent/__main__.py", line 12, in <module>
    import msgspec
ModuleNotFoundError: No module named 'msgspec'
"""

FROM_SSH_CASES = [
    (
        "ssh: Could not resolve hostname nodea: Name or service not known\r\n",
        "the name nodea leads nowhere (Name or service not known)",
        "ssh -G nodea",
    ),
    (
        "ssh: Could not resolve hostname nodea: Temporary failure in name resolution\r\n",
        "the name nodea leads nowhere (Temporary failure in name resolution)",
        "DNS",
    ),
    (
        "ssh: connect to host nodea port 2222: Connection refused\r\n",
        "the connection was refused on port 2222",
        "sshd runs on nodeA",
    ),
    (
        (
            "ssh: connect to host ::1 port 22: Network is unreachable\r\n"
            "ssh: connect to host 10.0.0.1 port 22: Connection refused\r\n"
        ),
        "the connection was refused on port 22",
        "listens on port 22",
    ),
    (
        "ssh: connect to host nodea port 22: Connection timed out\r\n",
        "nothing answered in time on port 22",
        "firewall",
    ),
    (
        "ssh: connect to host nodea port 22: No route to host\r\n",
        "no connection to port 22 could be made (No route to host)",
        "VPN",
    ),
    (
        "ssh: connect to host nodea port 22: Network is unreachable\r\n",
        "no connection to port 22 could be made (Network is unreachable)",
        "See that nodeA is up",
    ),
    (
        CHANGED_AND_STRICT,
        "its host key has changed: it is not the one on line 3 of /home/bob/.ssh/known_hosts",
        (
            "Make sure why: was nodeA installed anew, or does somebody sit in between? Only then "
            "remove the old key with `ssh-keygen -f '/home/bob/.ssh/known_hosts' -R '[nodea]:2222'`"
        ),
    ),
    (REVOKED, "the host key that it shows was revoked", "Do not connect"),
    (
        "Host key verification failed.\r\n",
        "its host key is not known here",
        "Connect once by hand with `ssh -p 2222 -l bob nodeA`",
    ),
    (
        (
            "No ED25519 host key is known for [nodea]:2222 and you have requested strict checking.\r\n"
            "Host key verification failed.\r\n"
        ),
        "its host key is not known here",
        "StrictHostKeyChecking=accept-new",
    ),
    (
        DENIED,
        "user bob was not let in (the host takes publickey)",
        "`ssh-copy-id -p 2222 bob@nodeA`",
    ),
    (
        "bob@nodea: Permission denied (publickey,password,keyboard-interactive).\r\n",
        "user bob was not let in (the host takes publickey,password,keyboard-interactive)",
        "`ssh-add`",
    ),
    (
        "bob@nodea: Permission denied (gssapi-keyex,gssapi-with-mic,publickey).\r\n",
        "user bob was not let in (the host takes gssapi-keyex,gssapi-with-mic,publickey)",
        "`kinit`",
    ),
    (
        "bob@nodea: Permission denied (keyboard-interactive).\r\n",
        (
            "user bob was not let in without being asked something "
            "(the host takes keyboard-interactive)"
        ),
        "ControlMaster",
    ),
    (CHANGED + DENIED, "user bob was not let in (the host takes publickey)", "ssh-copy-id"),
    (
        UNPROTECTED,
        "ssh ignores the key /home/bob/.ssh/id, because others may read it",
        "`chmod 600 /home/bob/.ssh/id`",
    ),
    (
        'Load key "/home/bob/.ssh/id": error in libcrypto\r\n' + DENIED,
        "ssh cannot read the key /home/bob/.ssh/id (error in libcrypto)",
        "IdentityFile",
    ),
    (
        "Warning: Identity file /home/bob/id not accessible: No such file or directory.\n" + DENIED,
        "ssh cannot read the key /home/bob/id (No such file or directory)",
        "with -i",
    ),
    (
        'sign_and_send_pubkey: signing failed for ED25519 "bob@home" from agent: '
        "agent refused operation\r\n" + DENIED,
        "the ssh agent refused to use its key",
        "`ssh-add`",
    ),
    (
        (
            "Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures\r\n"
            "Disconnected from 10.0.0.1 port 22\r\n"
        ),
        "sshd gave up after too many keys",
        "IdentitiesOnly yes",
    ),
    (
        (
            "Your account has expired; please contact your system administrator.\n"
            "Connection closed by 10.0.0.1 port 22\r\n"
        ),
        "the account there has expired",
        "administrator of nodeA",
    ),
    (
        "The system is down for maintenance until 6 pm.\n\nConnection closed by 10.0.0.1 port 22\r\n",
        (
            "sshd closed the connection at the login; the last that was said is: "
            "The system is down for maintenance until 6 pm"
        ),
        "log of sshd on nodeA",
    ),
    (
        (
            "Access denied by pam_slurm_adopt: you have no active jobs on this node\n"
            "Connection closed by 10.0.0.1 port 22\r\n"
        ),
        (
            "Slurm keeps you out "
            "(Access denied by pam_slurm_adopt: you have no active jobs on this node)"
        ),
        "on which a job of yours runs",
    ),
    (
        "Connection closed by 10.0.0.1 port 22\r\n",
        "sshd closed the connection at the login",
        "log of sshd on nodeA",
    ),
    (
        (
            "kex_exchange_identification: read: Connection reset by peer\r\n"
            "Connection reset by 10.0.0.1 port 2222\r\n"
        ),
        "the connection was closed on port 2222 before sshd said a word",
        "MaxStartups",
    ),
    (
        (
            "kex_exchange_identification: Connection closed by remote host\r\n"
            "Connection closed by 10.0.0.1 port 2222\r\n"
        ),
        "the connection was closed on port 2222 before sshd said a word",
        "fail2ban",
    ),
    (
        (
            "Connection timed out during banner exchange\r\n"
            "Connection to 10.0.0.1 port 2222 timed out\r\n"
        ),
        "what listens on port 2222 does not answer as an sshd",
        "overloaded",
    ),
    (
        (
            "Unable to negotiate with 10.0.0.1 port 22: no matching key exchange method found. "
            "Their offer: diffie-hellman-group14-sha1,kex-strict-s-v00@openssh.com\r\n"
        ),
        (
            "its sshd and this ssh have nothing in common: no matching key exchange method found, "
            "it offers diffie-hellman-group14-sha1,kex-strict-s-v00@openssh.com"
        ),
        "Renew",
    ),
    (
        "Error: remote port forwarding failed for listen port 0\r\n",
        "its sshd refused the tunnel (listen port 0)",
        "without --tunnel",
    ),
    (
        "Error: remote port forwarding failed for listen path /run/sock\r\n",
        "its sshd refused the tunnel (listen path /run/sock)",
        "AllowTcpForwarding",
    ),
    (
        "channel 0: open failed: connect failed: open failed\r\n",
        "its sshd lets us in but runs no command",
        "MaxSessions",
    ),
    (
        "Received disconnect from 10.0.0.1 port 22:11: Come back later\r\n",
        "sshd sent us away (Come back later)",
        "log of sshd on nodeA",
    ),
    (
        "Connection to 10.0.0.1 closed by remote host.\r\n",
        "sshd there ended the connection",
        "nodeA is shutting down",
    ),
    (
        "Timeout, server 10.0.0.1 not responding.\r\n",
        "it stopped answering (cut off, or down)",
        "nodeA is still up",
    ),
    (
        "Connection to 10.0.0.1 port 22 timed out\r\n",
        "it stopped answering (cut off, or down)",
        "nodeA is still up",
    ),
    (
        "client_loop: send disconnect: Broken pipe\r\n",
        "the connection broke (Broken pipe)",
        "nodeA is still up",
    ),
    (
        "command-line: line 0: Bad configuration option: colour\r\n",
        "ssh says: Bad configuration option: colour",
        "(--ssh), which is `ssh`",
    ),
    (
        'command-line line 0: unsupported option "perhaps".\r\n',
        'ssh says: unsupported option "perhaps"',
        "(--ssh)",
    ),
    (USAGE, "ssh says: unknown option -- Z", "(--ssh)"),
    ("Bad port '99999'\n", "ssh says: Bad port '99999'", "(--ssh)"),
    (
        (
            "/home/bob/.ssh/config: line 2: Bad configuration option: colour\r\n"
            "/home/bob/.ssh/config: terminating, 1 bad configuration options\r\n"
        ),
        (
            "line 2 of /home/bob/.ssh/config is not understood by ssh: "
            "Bad configuration option: colour"
        ),
        "Correct that line",
    ),
    (
        (
            "/home/bob/.ssh/config line 2: Bad port 'abc'.\r\n"
            "/home/bob/.ssh/config: terminating, 1 bad configuration options\r\n"
        ),
        "line 2 of /home/bob/.ssh/config is not understood by ssh: Bad port 'abc'",
        "Correct that line",
    ),
    (
        "Can't open user config file /home/bob/nosuch: No such file or directory\r\n",
        "ssh says: Can't open user config file /home/bob/nosuch: No such file or directory",
        "(--ssh)",
    ),
    (
        "Bad owner or permissions on /home/bob/.ssh/config\r\n",
        "ssh refuses /home/bob/.ssh/config, because others may write to it",
        "`chmod 600 /home/bob/.ssh/config`",
    ),
    (
        (
            "unix_listener: cannot bind to path /nowhere/sock.TwDUsg0gzIrNo07p: "
            "No such file or directory\r\n"
        ),
        (
            "ssh cannot share connections: unix_listener: cannot bind to path "
            "/nowhere/sock.TwDUsg0gzIrNo07p: No such file or directory"
        ),
        "ControlPath",
    ),
]
OVER_JUMP_HOST_CASES = [
    (
        "ssh: connect to host gate port 22: Connection refused\r\n" + PROXY_CLOSED,
        "on the way over gate, the connection was refused on port 22",
        "sshd runs on gate",
    ),
    (
        "ssh: Could not resolve hostname gate: Name or service not known\r\n" + PROXY_CLOSED,
        "on the way over gate, the name gate leads nowhere (Name or service not known)",
        "ssh -G gate",
    ),
    (
        "eve@gate: Permission denied (publickey).\r\n" + PROXY_CLOSED,
        "on the way over gate, user eve was not let in (the host takes publickey)",
        "`ssh-copy-id eve@gate`",
    ),
    (
        CHANGED_AND_STRICT + PROXY_CLOSED,
        (
            "on the way over a jump host or proxy, its host key has changed: "
            "it is not the one on line 3 of /home/bob/.ssh/known_hosts"
        ),
        "ssh-keygen",
    ),
    (
        "Host key verification failed.\r\n" + PROXY_CLOSED,
        "on the way over a jump host or proxy, its host key is not known here",
        "Connect once by hand with `ssh -p 2222 -l bob nodeA`",
    ),
    (
        "channel 0: open failed: connect failed: Connection refused\r\n"
        "stdio forwarding failed\r\n" + PROXY_CLOSED,
        "on the way over a jump host or proxy, its last hop failed (Connection refused)",
        "See that nodeA is up",
    ),
    (
        "channel 0: open failed: administratively prohibited: open failed\r\n"
        "stdio forwarding failed\r\n" + PROXY_CLOSED,
        (
            "on the way over a jump host or proxy, its last hop failed "
            "(administratively prohibited: open failed)"
        ),
        "AllowTcpForwarding",
    ),
    (
        (
            "Connection timed out during banner exchange\r\n"
            "Connection to UNKNOWN port 65535 timed out\r\n"
        ),
        "on the way over a jump host or proxy, nothing came in time",
        "Try each hop by hand",
    ),
    (
        "/bin/bash: line 1: /nosuch/program: No such file or directory\n" + PROXY_CLOSED,
        (
            "on the way over a jump host or proxy, the connection broke off "
            "(/bin/bash: line 1: /nosuch/program: No such file or directory)"
        ),
        "ProxyCommand",
    ),
    (
        PROXY_CLOSED,
        "on the way over a jump host or proxy, the connection broke off",
        "ProxyJump",
    ),
]
FROM_HOST_CASES = [
    (
        SETUP_FAILED,
        (
            "Lmod has detected the following error: The following module(s) are unknown\n"
            "jupyter-dist: this setup command failed: module load cuda\n"
        ),
        "the setup command `module load cuda` failed",
        "`ssh -p 2222 -l bob nodeA`",
    ),
    (
        NO_PYTHON,
        "jupyter-dist: there is no Python at /opt/env/bin/python\n",
        "there is no Python at /opt/env/bin/python",
        "--python",
    ),
    (2, OLD_PYTHON, "/usr/bin/python3 is older than Python 3.11", "--python"),
    (1, NOT_INSTALLED, "/opt/env/bin/python has no jupyter-dist", "--install"),
    (
        1,
        "/opt/env/bin/python: No module named jupyter_dist\n",
        "/opt/env/bin/python has no jupyter-dist",
        "--python",
    ),
    (
        1,
        "/opt/env/bin/python: No module named jupyter_dist.agent\n",
        "the jupyter-dist of /opt/env/bin/python is another one than here",
        "--install",
    ),
    (
        1,
        (
            "/opt/env/bin/python: Error while finding module specification for "
            "'jupyter_dist.agent.far' (ModuleNotFoundError: No module named 'jupyter_dist.agent')\n"
        ),
        "the jupyter-dist of /opt/env/bin/python is another one than here",
        "--install",
    ),
    (
        1,
        BROKEN_INSTALL,
        "the jupyter-dist there does not load: No module named 'msgspec'",
        "--install",
    ),
    (
        127,
        "bash: line 1: exec: bash: not found\n",
        "the shell there did not find a program (bash: line 1: exec: bash: not found)",
        "by hand",
    ),
    (
        126,
        "bash: line 1: exec: /opt/sh: cannot execute: Permission denied\n",
        (
            "the shell there could not run a program "
            "(bash: line 1: exec: /opt/sh: cannot execute: Permission denied)"
        ),
        "by hand",
    ),
    (
        1,
        (
            "You are required to change your password immediately (administrator enforced).\n"
            "WARNING: Your password has expired.\n"
            "Password change required but no TTY available.\n"
        ),
        "the password of the account there has expired",
        "Set a new one",
    ),
    (
        1,
        "This account is currently not available.\n",
        "the account there runs no commands: This account is currently not available",
        "Name another user",
    ),
    (
        1,
        "This service allows sftp connections only.\n",
        "the account there runs no commands: This service allows sftp connections only",
        "Name another user",
    ),
    (
        1,
        "Warning: remote port forwarding failed for listen port 4000\r\n",
        "its sshd refused the tunnel (listen port 4000)",
        "--tunnel",
    ),
]


@pytest.mark.parametrize(("stderr", "reason", "next_step"), FROM_SSH_CASES)
def test_what_ssh_says_is_told_with_what_to_do(stderr, reason, next_step):
    failure = explain_ssh(HOST, 255, stderr)
    assert failure.reason == reason
    assert next_step in failure.next_step


@pytest.mark.parametrize(("stderr", "reason", "next_step"), OVER_JUMP_HOST_CASES)
def test_what_fails_on_the_way_is_told_as_such(stderr, reason, next_step):
    failure = explain_ssh(HOST, 255, stderr)
    assert failure.reason == reason
    assert next_step in failure.next_step


@pytest.mark.parametrize(("status", "stderr", "reason", "next_step"), FROM_HOST_CASES)
def test_what_the_host_says_is_told_with_what_to_do(status, stderr, reason, next_step):
    failure = explain_ssh(HOST, status, stderr)
    assert failure.reason == reason
    assert next_step in failure.next_step


@pytest.mark.parametrize(
    ("stderr", "reason", "next_step"),
    # Where sshd itself gives no reason, the last line before is all there is.
    [case for case in FROM_SSH_CASES if "closed the connection at the login" not in case[1]],
)
def test_a_banner_before_the_message_changes_nothing(stderr, reason, next_step):
    assert explain_ssh(HOST, 255, BANNER + stderr).reason == reason


@pytest.mark.parametrize(("status", "stderr", "reason", "next_step"), FROM_HOST_CASES)
def test_what_shell_profiles_say_changes_nothing(status, stderr, reason, next_step):
    assert explain_ssh(HOST, status, PROFILE + stderr).reason == reason


def first_that_fits(table, text):
    return next(
        saying
        for saying in table
        if re.search(saying.said, text.replace("\r", "").strip(), re.MULTILINE)
    )


def test_every_saying_is_the_first_that_fits_a_real_text():
    from_ssh = [
        first_that_fits(FROM_SSH, case[0]) for case in FROM_SSH_CASES + OVER_JUMP_HOST_CASES
    ]
    from_host = [
        first_that_fits(FROM_HOST, case[1]) for case in FROM_HOST_CASES if case[0] not in (126, 127)
    ]
    assert [saying.said for saying in FROM_SSH if saying not in from_ssh] == []
    assert [saying.said for saying in FROM_HOST if saying not in from_host] == []


@pytest.mark.parametrize("stderr", [case[0] for case in FROM_SSH_CASES + OVER_JUMP_HOST_CASES])
def test_a_reason_is_one_fragment_and_a_next_step_ends_as_a_sentence(stderr):
    failure = explain_ssh(PLAIN, 255, stderr)
    assert "\n" not in failure.reason
    assert "\r" not in failure.reason
    assert not failure.reason.endswith(".")
    assert re.search(r"[.]$", failure.next_step)
    assert "{" not in failure.reason + failure.next_step


def test_a_command_to_try_has_the_users_own_ssh_words():
    host = HostSpec("[fd00::1]", ssh=("ssh", "-F", "/my files/config"))
    failure = explain_ssh(host, 255, "Host key verification failed.\r\n")
    assert "`ssh -F '/my files/config' fd00::1`" in failure.next_step


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (137, "it was ended there by SIGKILL"),
        (143, "it was ended there by SIGTERM"),
        (130, "it was ended there by SIGINT"),
        (-9, "ssh was ended by SIGKILL on this machine"),
        (-15, "ssh was ended by SIGTERM on this machine"),
    ],
)
def test_a_signal_is_named_whatever_was_said_before(status, reason):
    assert explain_ssh(HOST, status, NOT_INSTALLED).reason == reason


def test_killed_on_the_host_makes_think_of_memory():
    text = "bash: line 1:  1594 Killed                  sh -c 'kill -9 $$'\n"
    assert "memory" in explain_ssh(HOST, 137, text).next_step


def test_what_nobody_knows_is_the_last_line_and_the_status():
    failure = explain_ssh(PLAIN, 3, "first\nRuntimeError: it is odd.\n\n")
    assert failure.reason == "RuntimeError: it is odd (status 3)"
    assert failure.next_step == "Try `ssh nodeA true` by hand."


def test_silence_is_told_as_silence():
    failure = explain_ssh(PLAIN, 1, "\n")
    assert failure.reason == "it ended with status 1 and said nothing"
    assert "nologin" in failure.next_step


def test_ssh_without_a_word_may_mean_a_signal_there():
    # So it is when the kernel ends the very process that sshd has started.
    failure = explain_ssh(PLAIN, 255, "")
    assert failure.reason == "it said nothing (status 255)"
    assert "signal" in failure.next_step


@pytest.mark.parametrize("status", [SETUP_FAILED, NO_PYTHON])
def test_a_status_of_ours_from_somebody_else_quotes_them(status):
    assert "(who knows)" in explain_ssh(PLAIN, status, "who knows\n").reason


def test_what_ssh_would_say_means_nothing_when_ssh_got_there():
    failure = explain_ssh(PLAIN, 3, "ssh: connect to host other port 22: Connection refused\r\n")
    assert failure.reason == "ssh: connect to host other port 22: Connection refused (status 3)"


def test_the_last_message_counts_of_several_of_one_kind():
    text = (
        "ssh: connect to host a port 22: Connection refused\r\n"
        "ssh: connect to host b port 23: Connection refused\r\n"
    )
    assert explain_ssh(PLAIN, 255, text).reason == "the connection was refused on port 23"


def test_last_lines_leave_out_empty_ones_and_the_ends_that_terminals_want():
    assert last_lines("a\r\n\n \nb \r\nc\n", 2) == "b\nc"
    assert last_lines("") == ""
    assert last_lines("\n".join(map(str, range(50)))).splitlines() == [
        str(n) for n in range(38, 50)
    ]


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
