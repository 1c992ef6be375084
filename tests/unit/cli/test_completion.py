"""Completion in real shells."""

import shutil
import subprocess

import pytest

from jupyter_dist.cli.completion import SHELLS

IN_BASH = """
source "$1"
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_jupyter_dist
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
CASES = [
    ("jupyter-dist st", {"start", "stacks", "status", "stop"}),
    ("jupyter dist sta", {"start", "stacks", "status"}),
    ("jupyter dist run --on-l", {"--on-loss"}),
    ("jupyter-dist run --on-loss s", {"stop", "shrink"}),
    ("jupyter dist status d", {"demo"}),
    ("jupyter-dist who --name= --ra", {"--ranks"}),
]


@pytest.fixture
def script(dist, tmp_path):
    """Write the script of a shell; gives its path, and a folder of commands."""
    if_listed = tmp_path / "jupyter"
    if_listed.write_text("#!/bin/sh\necho demo\n")
    if_listed.chmod(0o755)

    def make(shell):
        file = tmp_path / f"completion.{shell}"
        status, text, _ = dist("completion", shell)
        assert status == 0
        file.write_text(text)
        return str(file), {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}

    return make


def run(shell, *words, **options):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    ended = subprocess.run(
        [shell, *words], capture_output=True, text=True, timeout=30, check=True, **options
    )
    assert ended.stderr == ""
    return ended.stdout


@pytest.mark.parametrize(("line", "offered"), CASES)
def test_bash_completes_commands_options_values_and_clusters(script, line, offered):
    file, env = script("bash")
    words = " ".join(f"'{word}'" for word in line.split(" "))
    told = run("bash", "-c", IN_BASH.format(words=words), "bash", file, env=env)
    assert {*told.split()} == offered


@pytest.mark.parametrize(("line", "offered"), CASES[:5])
def test_fish_completes_commands_options_values_and_clusters(script, line, offered):
    file, env = script("fish")
    told = run("fish", "-c", f'source {file}; complete -C "{line}"', env=env)
    assert {each.partition("\t")[0] for each in told.splitlines()} == offered


def test_zsh_takes_the_script(script):
    file, env = script("zsh")
    told = run("zsh", "-fc", f"source {file} && whence -w _jupyter_dist", env=env)
    assert told == "_jupyter_dist: function\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_is_in_every_script(dist, shell):
    text = dist("completion", shell)[1]
    assert all(name in text for name in ("checkpoint", "completion", "--save-on-preempt"[2:]))


def test_another_shell_is_refused(dist):
    status, _, err = dist("completion", "tcsh")
    assert status == 2
    assert "bash" in err
