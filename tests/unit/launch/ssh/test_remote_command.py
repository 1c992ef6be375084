"""The words that ssh and a host's shell get; what real shells do with them: test_remote_script.py."""

import shlex
import sys

import pytest

from jupyter_dist.launch.ssh.remote_command import python_script, shell_for, ssh_command
from jupyter_dist.model.spec.cluster_spec import HostSpec

A = HostSpec("a")


def split(command):
    """The words before `--`, the host, and the words that its login shell sees."""
    end = command.index("--")
    host, remote = command[end + 1 :]
    return command[:end], host, shlex.split(remote)


# --- the ssh command ---


def test_the_login_shell_gets_the_script_as_one_word():
    words, host, remote = split(ssh_command(A, "echo 'it''s'; exit 3"))
    assert words[0] == "ssh"
    assert host == "a"
    assert remote == ["exec", "sh", "-c", "echo 'it''s'; exit 3"]


@pytest.mark.parametrize("character", ["!", "\\"])
def test_what_csh_or_fish_would_act_on_stands_outside_of_quotes(character):
    remote = ssh_command(A, f"a{character}b")[-1]
    assert remote == f"exec sh -c 'a'\\{character}'b'"


def test_nothing_can_ask_a_question_and_silence_ends():
    words, _, _ = split(ssh_command(A, "true"))
    for word in ("-T", "-x", "BatchMode=yes", "ServerAliveInterval=3", "ServerAliveCountMax=3"):
        assert word in words
    assert any(word.startswith("ConnectTimeout=") for word in words)


def test_port_and_user_are_named_only_where_they_were_given():
    words, _, _ = split(ssh_command(A, "true"))
    assert not any(word.startswith(("-p", "-l")) for word in words)
    words, host, _ = split(ssh_command(HostSpec("a", port=2222, user="bob"), "true"))
    assert words[-3:] == ["-p2222", "-l", "bob"]
    assert host == "a"


def test_an_ipv6_address_has_no_brackets():
    assert split(ssh_command(HostSpec("[fd00::1]"), "true"))[1] == "fd00::1"


def test_the_users_own_words_stand_before_ours_so_that_they_win():
    host = HostSpec("a", ssh=("my-ssh", "-F", "some file", "-oBatchMode=no"))
    words, _, _ = split(ssh_command(host, "true", ["-R", "127.0.0.1:0:x:1"]))
    assert words[:4] == ["my-ssh", "-F", "some file", "-oBatchMode=no"]
    assert words.index("-oBatchMode=no") < words.index("BatchMode=yes")
    assert words[-2:] == ["-R", "127.0.0.1:0:x:1"]


def test_setup_commands_want_a_login_shell_of_bash():
    host = HostSpec("a", setup=("module load cuda",))
    assert shell_for(A) == ["sh", "-c"]
    assert shell_for(host) == ["bash", "-l", "-c"]
    assert split(ssh_command(host, "true"))[2] == ["exec", "bash", "-l", "-c", "true"]


# --- the script ---


def test_the_script_is_one_line_that_ends_with_the_arguments():
    script = python_script(A, ["-c", "print('a b')", "--x", "$HOME"])
    assert "\n" not in script
    assert shlex.split(script)[-5:] == ["$p", "-c", "print('a b')", "--x", "$HOME"]
    assert shlex.split(script)[-6] == "exec"


def test_without_a_wish_it_takes_the_interpreter_that_runs_here_or_else_python3():
    words = shlex.split(python_script(A, []))
    assert "p=;" in words
    assert f"p={sys.executable};" in words
    assert "p=python3;" in words


def test_only_the_home_directory_is_left_to_the_shell_there():
    assert python_script(HostSpec("a", python="~/a$b"), []).startswith("p=\"$HOME\"/'a$b';")
