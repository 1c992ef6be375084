"""The files of one job: its join file, its scripts, and what it and its nodes have written.

They lie in a directory of the job's own, into which nobody else can write, and are removed with it.
Those of a process that was killed say whose they are, and are removed by the next one.
"""

import contextlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

from jupyter_dist.errors import UsageError
from jupyter_dist.launch.processes.private_dir import remove_own_dir, this_machine
from jupyter_dist.launch.processes.process_life import process_lives
from jupyter_dist.text.said_lines import last_lines

EVENTS = ".events"
"""Ending of the file in which HTCondor itself writes what becomes of a job."""
_MOST_BYTES = 16_384
"""Of each file; the end counts."""
_NOISE = "srun: cluster configuration lacks support for cpu binding"
"""Where nothing is bound, nothing need be told not to."""
_MOST_FILES = 64
"""So many are read; a job may have thousands of nodes."""
_LINES = 12
_PREFIX = "jupyter-dist-"
_OWNER = "owner"
"""Name of the file that says which process has made the directory: its number, its machine."""


def make_job_dir(base: Path | str, cluster: str) -> Path:
    """Make the directory of one job (mode 0700); raises UsageError when none can be made there."""
    directory = Path(base).absolute()
    _check_base(directory)
    sweep_job_dirs(directory)
    # Two machines with one home may each have a cluster of this name.
    own_dir = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{cluster}-", dir=directory))
    (own_dir / _OWNER).write_text(f"{os.getpid()} {this_machine()}\n", encoding="utf-8")
    return own_dir


class JobFiles:
    """What lies in the directory of one job; every node sees it under the same name."""

    def __init__(self, own_dir: Path, cluster: str, output_dir: Path | None = None) -> None:
        """Output goes into a directory of its own where only this machine writes it."""
        self._own_dir = own_dir
        self.script = own_dir / f"{cluster}.job"
        self.agent = own_dir / f"{cluster}.agent.sh"
        self.output = (output_dir or own_dir) / f"{cluster}.log"

    def write_agent(self, text: str) -> None:
        """Write the script that each node runs."""
        self.agent.write_text(text, encoding="utf-8")
        self.agent.chmod(0o700)

    @property
    def has_output(self) -> bool:
        """A node has begun to write, be it nothing yet."""
        return bool(self._outputs())

    def read_output(self) -> str:
        """Return what the job has written last, as far as it can be read here."""
        texts = [_read_end(path) for path in self._outputs()[:_MOST_FILES]]
        return "\n".join(text for text in texts if text)

    def last_lines(self) -> str:
        """Return the last lines of it."""
        return last_lines(self.read_output().replace(_NOISE, ""), _LINES)

    def remove(self) -> None:
        """Remove all of them, and their directory."""
        for path in self._outputs():
            with contextlib.suppress(OSError):
                path.unlink()
        shutil.rmtree(self._own_dir, ignore_errors=True)

    def _outputs(self) -> list[Path]:
        try:
            names = sorted(os.listdir(self.output.parent))  # a network file system looks again
        except OSError:
            return []
        own = [name for name in names if name.startswith(self.output.name)]
        return [self.output.with_name(name) for name in own if not name.endswith(EVENTS)]


def sweep_job_dirs(directory: Path) -> None:
    """Remove the directories of jobs whose coordinator was on this machine, and was killed."""
    for own_dir in directory.glob(f"{_PREFIX}*"):
        if not _is_own_dir(own_dir):
            continue
        pid, _, machine = _read_end(own_dir / _OWNER).partition(" ")
        if pid.isdecimal() and machine == this_machine() and not process_lives(int(pid)):
            remove_own_dir(own_dir)


def _is_own_dir(path: Path) -> bool:
    """Return whether this is a directory, and this user's: others may write beside it."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _read_end(path: Path) -> str:
    try:
        # A FIFO would be waited for; nobody is to be read to the end who writes without one.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                return ""
            file.seek(max(0, found.st_size - _MOST_BYTES))
            return file.read(_MOST_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _check_base(directory: Path) -> None:
    """Raise UsageError unless our directory can be made there, and nobody else can replace it."""
    problem = ""
    if not directory.is_dir():
        problem = "it is no directory of this machine"
    elif not os.access(directory, os.W_OK | os.X_OK):
        problem = "it cannot be written to"
    else:
        mode = directory.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            problem = "everybody may rename what is in it, and so give your job other files"
    if problem:
        raise UsageError(
            f"job directory {str(directory)!r} is not accepted: {problem}. Give one that this "
            "machine and all nodes of the job see, with --job-dir DIR."
        )
