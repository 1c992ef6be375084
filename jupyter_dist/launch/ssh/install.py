"""Install the jupyter-dist that runs here on a host, over ssh, with the pip of its Python.

What runs there is `pip_on_host`: it goes over as text, followed by the wheels if there are any.
"""

import os
import re
import selectors
import signal
import subprocess
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import IO, Self

from jupyter_dist.errors import InstallFailed, UsageError
from jupyter_dist.launch.launcher import Failure
from jupyter_dist.launch.ssh import pip_on_host
from jupyter_dist.launch.ssh.remote_command import python_script, ssh_command
from jupyter_dist.launch.ssh.ssh_errors import ErrorPattern
from jupyter_dist.launch.ssh.ssh_failures import explain_ssh, find_saying
from jupyter_dist.model.spec.cluster_spec import HostSpec
from jupyter_dist.text.lists import name_some
from jupyter_dist.text.said_lines import last_lines

_SLICE_S = 0.2
_END_TIMEOUT_S = 8.0
_CHUNK = 1 << 18
_MOST_OUTPUT = 1 << 16
_SUFFIXES = (".whl", ".tar.gz", ".zip")
_FROM_PIP_ON_HOST = (1, pip_on_host.NO_PIP, pip_on_host.PIP_FAILED)
_OWN_ENVIRONMENT = (
    "Make an environment of your own there (`python3 -m venv ENV`), and name it with --python."
)
_MISSING = re.compile(r"^ERROR: No matching distribution found for (?P<name>[\w.-]+)", re.MULTILINE)
FROM_PIP = (
    ErrorPattern(
        r"^jupyter-dist: (?P<python>.+) has no pip$",
        "{python} has no pip",
        "Give it one there (`{python} -m ensurepip`), or name another environment with --python.",
    ),
    ErrorPattern(
        r"^error: externally-managed-environment$",
        "its Python belongs to the operating system, and takes no packages from pip",
        _OWN_ENVIRONMENT,
    ),
    ErrorPattern(
        r"\[Errno \d+\] (?P<why>No space left on device|Disk quota exceeded)",
        "there is no room for it ({why})",
        "Make room, or name an environment elsewhere with --python; the folder of temporary files "
        "is $TMPDIR, which a setup command can set.",
    ),
    ErrorPattern(
        r"\[Errno \d+\] (?P<why>Permission denied|Operation not permitted|Read-only file system)"
        r": '(?P<file>.+?)'",
        "{file} cannot be written ({why})",
        _OWN_ENVIRONMENT,
    ),
    ErrorPattern(
        r"^WARNING: Retrying .* after connection broken by '(?P<why>\w+)",
        "its pip does not reach the package index ({why})",
        "Send the wheels from here with --wheelhouse DIR, or set PIP_INDEX_URL or a proxy in a "
        "setup command.",
    ),
    ErrorPattern(
        r"^ERROR: No matching distribution found for (?P<what>.+)$",
        "its pip finds no {what}",
        "Send the wheels from here with --wheelhouse DIR, or set PIP_INDEX_URL in a setup command.",
    ),
    ErrorPattern(
        r"^ERROR: Cannot install (?P<what>.+) because these package versions have conflicting",
        "what it needs is at odds ({what})",
        _OWN_ENVIRONMENT,
    ),
    ErrorPattern(r"^ERROR: (?P<why>.+)$", "{why}", "Look at what its pip said."),
)
"""What pip says when it fails; the first that fits counts."""


def wheels_for(version: str, directory: Path) -> list[str]:
    """Name what a wheelhouse holds; raises UsageError when our own wheel is not in it."""
    fill = (
        f"Fill it with `pip download jupyter-dist=={version} -d {directory}`, or in a checkout "
        f"with `pip wheel . -w {directory}`, both with a Python like that of the hosts."
    )
    if not directory.is_dir():
        raise UsageError(f"wheelhouse {str(directory)!r} is not a directory. {fill}")
    names = sorted(path.name for path in directory.iterdir() if path.name.endswith(_SUFFIXES))
    if not any(name.startswith(f"jupyter_dist-{version}-") for name in names):
        held = f"it holds {name_some(names)}" if names else "it holds no packages"
        raise UsageError(
            f"wheelhouse {str(directory)!r} has no wheel of jupyter-dist {version}: {held}. {fill}"
        )
    return names


def install_on(
    host: HostSpec,
    version: str,
    wheelhouse: Path | None,
    log: IO[bytes],
    timeout_s: float,
    is_unwanted: Callable[[], bool] = lambda: False,
) -> None:
    """Install jupyter-dist on the host: from a wheelhouse here, else as its pip is set up there.

    Raises UsageError for the wheelhouse, and InstallFailed, also when the time is over or it
    `is_unwanted` meanwhile. However it ends, nothing of it stays on the host or runs there.
    """
    names = [] if wheelhouse is None else wheels_for(version, wheelhouse)
    wheels = [] if wheelhouse is None else [wheelhouse / name for name in names]
    program = Path(pip_on_host.__file__).read_bytes()
    deadline_s = monotonic() + timeout_s
    try:
        with _Run(_command(host, version, program, wheels), _stdin(program, wheels), log) as run:
            status = run.until_end(lambda: is_unwanted() or monotonic() > deadline_s)
            output, is_late = run.output, monotonic() > deadline_s
    except OSError as error:
        reason = f"{error.filename or 'ssh'}: {error.strerror}"
        raise InstallFailed(host.name, reason, "Correct that on this machine.") from error
    if status == 0:
        return
    if status is None and not is_late:
        raise InstallFailed(host.name, "it was given up", output=last_lines(output))
    problem = explain_install(host, status, output, names)
    raise InstallFailed(host.name, problem.reason, problem.next_step, last_lines(output))


def explain_install(
    host: HostSpec, status: int | None, output: str, names: Sequence[str] = ()
) -> Failure:
    """Return why it ended with this status (None: in time it did not), having said this.

    `names` is what the wheelhouse holds, if there is one.
    """
    if status is not None and status not in _FROM_PIP_ON_HOST:
        return explain_ssh(host, status, output)
    found = _explain_missing(names, output) or find_saying(FROM_PIP, host, output)
    if status is None:
        doing = f": {found.reason}" if found else ""
        step = found.next_step if found else "Allow it more time with --timeout."
        return Failure(f"it was not done in time{doing}", step)
    return found or explain_ssh(host, status, output)


def _explain_missing(names: Sequence[str], output: str) -> Failure | None:
    """Return what of a wheelhouse pip did not find, or not for the Python there."""
    match = _MISSING.search(output)
    if not names or match is None:
        return None
    package = _plain(match["name"])
    held = [name for name in names if _plain(name.split("-")[0]) == package]
    but = f" that fits its Python, but {name_some(held)}" if held else ""
    return Failure(
        f"the wheelhouse holds no {match['name']}{but}",
        "Fill it by `pip download` with a Python like the one there.",
    )


def _plain(package: str) -> str:
    """Spell the name of a package as indexes do."""
    return re.sub(r"[-_.]+", "-", package).lower()


def _command(host: HostSpec, version: str, program: bytes, wheels: Sequence[Path]) -> list[str]:
    start = f"import sys; exec(sys.stdin.buffer.read({len(program)}))"
    options = ["--wheels"] if wheels else []
    script = python_script(host, ["-P", "-c", start, f"jupyter-dist=={version}", *options])
    return ssh_command(host, script)


def _stdin(program: bytes, wheels: Sequence[Path]) -> Iterator[bytes]:
    """Yield what the host reads: the program, and the wheels as a tar stream."""
    yield program
    if not wheels:
        return
    size = 0
    for path in wheels:
        member = tarfile.TarInfo(path.name)
        member.size = path.stat().st_size
        header = member.tobuf()
        yield header
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                yield chunk
        yield bytes(-member.size % tarfile.BLOCKSIZE)
        size += len(header) + member.size + -member.size % tarfile.BLOCKSIZE
    # The other side reads whole records, and must not wait for the rest of one.
    yield bytes(tarfile.RECORDSIZE + -size % tarfile.RECORDSIZE)


class _Run:
    """ssh, fed and listened to in slices, so that it can be given up at any time."""

    def __init__(self, command: Sequence[str], chunks: Iterator[bytes], log: IO[bytes]) -> None:
        self._chunks = chunks
        self._pending = memoryview(b"")
        self._log = log
        self._said = b""
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin = self._process.stdin
        self._stdout = self._process.stdout
        os.set_blocking(self._stdin.fileno(), False)

    @property
    def output(self) -> str:
        """What ssh and the host have said, or the end of it."""
        return self._said.decode(errors="replace")

    def until_end(self, is_over: Callable[[], bool]) -> int | None:
        """Wait for its end and give the exit status, or None when it is over before that."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdout, selectors.EVENT_READ, self._listen)
            if not self._stdin.closed:
                selector.register(self._stdin, selectors.EVENT_WRITE, self._feed)
            while not is_over():
                ready = selector.select(_SLICE_S)
                for key, _ in ready:
                    if not key.data():
                        selector.unregister(key.fileobj)
                # Not the end of its output: a shared connection may stay, and keep that open.
                if not ready and (status := self._process.poll()) is not None:
                    return status
        return None

    def _feed(self) -> bool:
        """Write what can be written; False when there is no more, or nobody who reads it."""
        while not self._pending:
            chunk = next(self._chunks, None)
            if chunk is None:
                return False
            self._pending = memoryview(chunk)
        try:
            count = os.write(self._stdin.fileno(), self._pending)
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False
        self._pending = self._pending[count:]
        return True

    def _listen(self) -> bool:
        """Read what there is; False at the end."""
        chunk = os.read(self._stdout.fileno(), _CHUNK)
        self._log.write(chunk)
        self._said = (self._said + chunk)[-_MOST_OUTPUT:]
        return bool(chunk)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Have the host tidy up, which it does at the end of its stdin."""
        try:
            self._stdin.close()
            if self._process.poll() is None and pip_on_host.BEGUN in self.output:
                deadline_s = monotonic() + _END_TIMEOUT_S
                self.until_end(lambda: monotonic() > deadline_s)
        finally:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)  # with those of its jump hosts
                self._process.wait()
            self._stdout.close()
