"""The script that starts Python on a host, run by the shells that people have there."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from jupyter_dist.launch.ssh.remote_command import (
    NO_PYTHON,
    SETUP_FAILED,
    python_script,
    shell_for,
    ssh_command,
)
from jupyter_dist.model.spec.cluster_spec import HostSpec
from tests.facts import assert_tells

SAY = "import json, os, sys; print(json.dumps([os.getpid(), sys.executable, *sys.argv[1:]]))"


def installed(*names):
    """Programs as parameters; those that this machine lacks are skipped."""
    missing = "is not installed here"
    return [
        pytest.param(name, marks=pytest.mark.skipif(not shutil.which(name), reason=missing))
        for name in names
    ]


class Host:
    """A home directory and a search path of its own; shells read nothing from elsewhere."""

    def __init__(self, root):
        self.home = root / "home"
        self.programs = root / "programs"
        self.home.mkdir()
        self.programs.mkdir()

    def link(self, path, target):
        """Make a program with this name."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
        return path

    def run(self, command, stdin=""):
        """Run it there; gives the finished process, and notes its pid."""
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.home,
            env={"HOME": str(self.home), "PATH": f"{self.programs}:{os.environ['PATH']}"},
        )
        stdout, stderr = process.communicate(stdin, timeout=60)
        self.pid = process.pid
        return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)

    def start_python(self, spec, *arguments, stdin=""):
        """Run the script for this host as a local launcher does."""
        return self.run([*shell_for(spec), python_script(spec, arguments)], stdin)

    def said(self, done):
        """What SAY has printed: its pid, its interpreter, and its arguments."""
        assert done.returncode == 0, done.stderr
        pid, executable, *arguments = json.loads(done.stdout)
        return pid, executable, arguments


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


@pytest.fixture
def env(host):
    """An environment directory, not in the search path."""
    host.link(host.home / "my env" / "bin" / "python", sys.executable)
    return host.home / "my env"


# --- every login shell, every sh ---


@pytest.mark.parametrize(
    "login_shell", installed("sh", "dash", "bash", "zsh", "ksh", "csh", "tcsh", "fish")
)
@pytest.mark.parametrize("setup", [(), ("A='it''s !'",)], ids=["plain", "with setup"])
def test_every_login_shell_passes_everything_on_unchanged(host, env, login_shell, setup):
    words = [
        "it's",
        'a "word"',
        "!",
        "!!",
        "a\\b\\\\",
        "\\",
        "$HOME",
        "`ls`",
        "*",
        "~",
        "#",
        "",
        "%1",
    ]
    spec = HostSpec("a", python=str(env), setup=setup)
    remote = ssh_command(spec, python_script(spec, ["-c", SAY, *words]))[-1]
    pid, executable, arguments = host.said(host.run([login_shell, "-c", remote]))
    assert arguments == words
    assert executable == str(env / "bin" / "python")
    assert pid == host.pid, "signals reach it, and its status is what ssh tells"


@pytest.mark.parametrize("shell", installed("dash", "bash", "busybox", "ksh"))
@pytest.mark.parametrize(("python", "status"), [("my env", 0), ("", 0), ("no such env", NO_PYTHON)])
def test_every_sh_does_the_same(host, env, shell, python, status):
    host.link(host.programs / "sh", shutil.which(shell))
    done = host.start_python(HostSpec("a", python=python), "-c", SAY)
    assert done.returncode == status
    assert bool(done.stdout) == (status == 0)


# --- which Python ---


@pytest.mark.parametrize("python", ["~/my env", "~/my env/bin/python", "my env", "{home}/my env"])
def test_an_environment_is_named_by_its_directory_or_its_interpreter(host, env, python):
    spec = HostSpec("a", python=python.format(home=host.home))
    _, executable, _ = host.said(host.start_python(spec, "-c", SAY))
    assert Path(host.home, executable) == env / "bin" / "python"


def test_an_interpreter_is_found_by_its_bare_name(host):
    program = host.link(host.programs / "my-python", sys.executable)
    _, executable, _ = host.said(host.start_python(HostSpec("a", python="my-python"), "-c", SAY))
    assert executable == str(program)


def test_without_a_wish_it_is_the_interpreter_that_runs_here(host):
    _, executable, _ = host.said(host.start_python(HostSpec("a"), "-c", SAY))
    assert executable == sys.executable


def test_where_that_is_not_it_is_python3(host, monkeypatch):
    program = host.link(host.programs / "python3", sys.executable)
    monkeypatch.setattr(sys, "executable", "/no/such/env/bin/python")
    _, executable, _ = host.said(host.start_python(HostSpec("a"), "-c", SAY))
    assert executable == str(program)


@pytest.mark.parametrize(
    ("python", "named"),
    [
        ("/no/such/env", "/no/such/env"),
        ("{home}", "{home}/bin/python"),
        ("~/none", "{home}/none"),
        ("python9", "python9"),
    ],
)
def test_a_python_that_is_not_there_is_named(host, python, named):
    done = host.start_python(HostSpec("a", python=python.format(home=host.home)), "-c", SAY)
    assert done.returncode == NO_PYTHON
    assert_tells(done.stderr, "jupyter-dist: ", "no Python at", f" {named.format(home=host.home)}")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


# --- setup ---


@pytest.mark.parametrize(
    "command",
    ["false", "module load 'cuda'", "exit_with() { return 3; }; exit_with", "echo 'open", "fi"],
)
def test_a_setup_command_that_fails_is_named_and_nothing_more_is_run(host, command):
    spec = HostSpec("a", setup=("true", command, "echo never"))
    done = host.start_python(spec, "-c", SAY)
    assert done.returncode == SETUP_FAILED
    last = done.stderr.splitlines()[-1]
    assert_tells(last, "jupyter-dist: ", f" failed: {command}")
    assert done.stdout == ""


def test_setup_changes_what_python_finds(host):
    (host.home / "env.sh").write_text("export FROM_FILE=1\n")
    setup = ("source env.sh  # ours", "export A='x y'", "B=$A; export B", "cd /")
    code = "import os; print(os.environ['FROM_FILE'], os.environ['B'], os.getcwd())"
    done = host.start_python(HostSpec("a", setup=setup), "-c", code)
    assert (done.returncode, done.stdout) == (0, "1 x y /\n"), done.stderr


def test_setup_runs_in_a_login_shell(host):
    (host.home / ".bash_profile").write_text("module() { export LOADED=$2; }\n")
    code = "import os; print(os.environ['LOADED'])"
    done = host.start_python(HostSpec("a", setup=("module load cuda",)), "-c", code)
    assert (done.returncode, done.stdout) == (0, "cuda\n"), done.stderr


def test_what_is_meant_for_python_is_not_read_by_setup(host):
    spec = HostSpec("a", setup=("cat", "read line || true"))
    done = host.start_python(spec, "-c", "import sys; print(sys.stdin.read())", stdin="a secret")
    assert (done.returncode, done.stdout) == (0, "a secret\n"), done.stderr


def test_python_takes_the_place_of_the_shell_after_a_setup_too(host):
    pid, _, _ = host.said(host.start_python(HostSpec("a", setup=("true",)), "-c", SAY))
    assert pid == host.pid


def test_setup_may_wait_for_its_own_children(host):
    setup = ("(sleep 0.1; echo done > file) &", "wait", "cat file >&2")
    done = host.start_python(HostSpec("a", setup=setup), "-c", SAY)
    assert (done.returncode, done.stderr) == (0, "done\n")


def test_setup_that_hangs_ends_with_whoever_wants_it(host):
    spec = HostSpec("a", setup=("echo up >&2", "sleep 61"))
    starter = (
        "import subprocess, sys\n"
        "subprocess.run(sys.argv[1:], stdin=subprocess.PIPE, start_new_session=True)\n"
    )
    words = [sys.executable, "-c", starter, *shell_for(spec), python_script(spec, ["-c", SAY])]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr.readline() == "up\n"
        everything = psutil.Process(process.pid).children(recursive=True)
        process.kill()
    assert everything
    assert psutil.wait_procs(everything, 30)[1] == []
