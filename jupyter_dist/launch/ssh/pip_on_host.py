"""The program that runs pip on a host. It is sent there as text: nothing of ours is there yet.

Its arguments are what to install, and --wheels. Its stdin brings, after its own text and with
--wheels, a tar stream of wheels to install from. Then stdin stays open for as long as someone
waits: at its end pip is stopped, and nothing is left.
"""

import contextlib
import errno
import importlib.util
import os
import select
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterator
from typing import IO, NoReturn

NO_PIP = 91
"""Exit status when this Python has no pip."""
PIP_FAILED = 92
"""Exit status when pip has failed, or the wheels could not be stored."""
GIVEN_UP = 93
"""Exit status when nobody waited any more."""
BEGUN = "jupyter-dist: pip shall install "
"""So its first line begins, once there is something to tidy up."""
_SLICE_S = 0.2
_END_TIMEOUT_S = 5.0
_SIGNALS = ("SIGHUP", "SIGINT", "SIGTERM")
_TO_LOCK = ("pyvenv.cfg", "conda-meta/history")
"""Files that an environment has once."""
_QUIET = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_PROGRESS_BAR": "off",
    "PIP_ROOT_USER_ACTION": "ignore",
}


class _GivenUp(Exception):
    """Nobody waits any more."""


def main(requirement: str, *, has_wheels: bool) -> int:
    """Install, and give the exit status."""
    for number in (getattr(signal, name) for name in _SIGNALS):
        signal.signal(number, _give_up)
    _say(f"{BEGUN}{requirement} for {sys.executable}")
    if importlib.util.find_spec("pip") is None:
        _say(f"jupyter-dist: {sys.executable} has no pip")
        return NO_PIP
    folder = ""
    try:
        options = []
        if has_wheels:
            folder = tempfile.mkdtemp(prefix="jupyter-dist-wheels-")  # its owner's alone
            _unpack(sys.stdin.buffer, folder)
            options = ["--no-index", "--find-links", folder]
        with _environment_locked():
            return 0 if _run_pip([*options, requirement]) == 0 else PIP_FAILED
    except (_GivenUp, tarfile.ReadError):
        return GIVEN_UP
    except OSError as error:
        _say(f"jupyter-dist: {error}")
        return PIP_FAILED
    finally:
        _ignore_signals()
        shutil.rmtree(folder, ignore_errors=True)


def _unpack(stream: IO[bytes], folder: str) -> None:
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            source = archive.extractfile(member)
            assert source is not None
            with open(os.path.join(folder, os.path.basename(member.name)), "wb") as target:
                shutil.copyfileobj(source, target)


@contextlib.contextmanager
def _environment_locked() -> Iterator[None]:
    """Let only one host at a time install, because several may share one environment."""
    descriptor = _open_to_lock()
    try:
        while descriptor is not None and not _is_locked(descriptor):
            _wait_a_little()
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _open_to_lock() -> int | None:
    for name in _TO_LOCK:
        # For writing: else NFS does not lock it.
        with contextlib.suppress(OSError):
            return os.open(os.path.join(sys.prefix, name), os.O_RDWR)
    with contextlib.suppress(OSError):
        return os.open(sysconfig.get_path("purelib"), os.O_RDONLY)
    return None


def _is_locked(descriptor: int) -> bool:
    """Lock it; False while someone else has it. What cannot be locked at all is ours."""
    import fcntl  # clients on Windows load this module, and run it elsewhere

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True


def _run_pip(arguments: list[str]) -> int:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "pip", "install", *arguments],
        stdin=subprocess.DEVNULL,
        env={**os.environ, **_QUIET},
        start_new_session=True,
    )
    try:
        while process.poll() is None:
            _wait_a_little()
    finally:
        _end(process)
    return process.returncode


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Interrupt pip if it still runs, so that it tidies up; kill it when that does not help."""
    _ignore_signals()
    for number in (signal.SIGINT, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_TIMEOUT_S)


def _wait_a_little() -> None:
    """Wait, and raise _GivenUp when stdin has ended."""
    if select.select([0], [], [], _SLICE_S)[0] and not os.read(0, 65536):
        raise _GivenUp


def _give_up(*_: object) -> NoReturn:
    _ignore_signals()
    raise _GivenUp


def _ignore_signals() -> None:
    """Let nothing come in between while things are tidied up."""
    for number in (getattr(signal, name) for name in _SIGNALS):
        signal.signal(number, signal.SIG_IGN)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], has_wheels="--wheels" in sys.argv[2:]))
