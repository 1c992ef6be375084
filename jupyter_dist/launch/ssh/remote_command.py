"""What a host's shell is asked to run, and the ssh command that asks it.

The user's login shell gets one quoted word for `sh`, so that bash, zsh, csh and fish all
understand it. No secret is ever part of a command: those travel on stdin.
"""

import shlex
import sys
from collections.abc import Sequence

from jupyter_dist.model.spec.cluster_spec import HostSpec

SETUP_FAILED = 95
"""Exit status of the script when one of the host's setup commands failed."""
NO_PYTHON = 96
"""Exit status of the script when the host has no such interpreter."""
CONNECT_TIMEOUT_S = 10
_OPTIONS = (
    # Nobody can answer a prompt inside a notebook cell.
    *("-T", "-x", "-o", "BatchMode=yes"),
    *("-o", f"ConnectTimeout={CONNECT_TIMEOUT_S}"),
    # A host that was cut off must not keep our end for hours.
    *("-o", "ServerAliveInterval=3", "-o", "ServerAliveCountMax=3"),
)
_QUOTED = str.maketrans({"'": "'\"'\"'", "!": "'\\!'", "\\": "'\\\\'"})
"""Even between single quotes csh acts on an exclamation mark, and fish on a backslash."""

_WATCH = (
    "jupyter_dist_watch=$( (kill -0 $PPID || exit; while kill -0 $PPID && kill -0 $$; do sleep 1;"
    " done; kill -- -$$) </dev/null >/dev/null 2>&1 & echo $!)"
)
"""Ends a setup command that hangs when whoever wants it is gone: sshd does not do that.

It is no child of the shell itself, where a setup command may wait for all children.
"""
_END_WATCH = 'kill "$jupyter_dist_watch" 2>/dev/null || :'


def ssh_command(host: HostSpec, script: str, options: Sequence[str] = ()) -> list[str]:
    """Return the words that run this script on the host; what the user's own words say wins."""
    target = [f"-p{host.port}"] if host.port else []
    if host.user:
        target += ["-l", host.user]
    # One word that sh, bash, zsh, csh and fish read alike.
    remote = f"exec {shlex.join(shell_for(host))} '{script.translate(_QUOTED)}'"
    return [*host.ssh, *_OPTIONS, *target, *options, "--", host.address, remote]


def shell_for(host: HostSpec) -> list[str]:
    """Return the shell that runs a host's script: modules and their like want a login shell."""
    return ["bash", "-l", "-c"] if host.setup else ["sh", "-c"]


def python_script(host: HostSpec, arguments: Sequence[str]) -> str:
    """Write the shell script that runs the host's Python with these arguments.

    It ends with SETUP_FAILED or NO_PYTHON, and a line that begins with `jupyter-dist:` on
    stderr, when it does not get as far as that.
    """
    lines = [_WATCH, *map(_checked, host.setup), _END_WATCH] if host.setup else []
    lines.append(f"p={_path_on_host(host.python)}")
    lines.append('[ -d "$p" ] && p=$p/bin/python')
    here = shlex.quote(sys.executable)
    lines.append(f'[ -n "$p" ] || {{ p={here}; [ -x "$p" ] || p=python3; }}')
    lines.append(
        'command -v "$p" >/dev/null 2>&1 || '
        f'{{ echo "jupyter-dist: there is no Python at $p" >&2; exit {NO_PYTHON}; }}'
    )
    lines.append(f'exec "$p" {shlex.join(arguments)}')
    return "; ".join(lines)  # on one line, because csh takes no quoted word of several


def _path_on_host(path: str) -> str:
    """Write a path for `sh`; `~/` is the home directory there."""
    if path.startswith("~/"):
        return f'"$HOME"/{shlex.quote(path.removeprefix("~/"))}'
    return shlex.quote(path)


def _checked(command: str) -> str:
    """Run a setup command in the shell itself, and end the script when it fails."""
    told = shlex.quote(f"jupyter-dist: this setup command failed: {command}")
    # eval, so that a comment or an open quote ends with the command. What comes on stdin is not
    # meant for it.
    run = f"eval {shlex.quote(command)} </dev/null"
    return f"{run} || {{ echo {told} >&2; exit {SETUP_FAILED}; }}"
