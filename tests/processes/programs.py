"""Programs of their own: scripts, and what a person types in a terminal."""

import subprocess
import sys


def run_program(*words, **more):
    """Run this Python with these arguments to its end; gives what came of it."""
    usual = {"capture_output": True, "text": True, "timeout": 100}
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, check=False, **{**usual, **more})


def run_script(code, *words):
    """Run a script, which has to end well; gives what it printed."""
    done = run_program("-c", code, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def dist(*words):
    """Run `jupyter dist …`; gives (exit status, stdout, stderr)."""
    done = run_program("-m", "jupyter_dist.cli", *words)
    return done.returncode, done.stdout, done.stderr
