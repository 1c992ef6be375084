"""rsync over the user's own ssh: the quicker way for much code, because it sends differences.

It only brings files near: the agent on the host checks them and puts them into place.
"""

import functools
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence

import msgspec

from jupyter_dist.launch.private_dir import make_private_dir
from jupyter_dist.launch.remote_command import ssh_words
from jupyter_dist.model.spec import HostSpec

SILENCE_S = 60
"""rsync gives up when nothing has moved for so long."""
END_TIMEOUT_S = 2.0
_TAIL_BYTES = 400
_TELLS_FROM = (3, 1)
"""Since this version it can tell how much it has sent, and at once."""
_VERSION = re.compile(r"^rsync\s+version\s+v?(\d+)\.(\d+)")
_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


class RsyncOrder(msgspec.Struct, frozen=True):
    """Files for one host; their paths are the same below `base` here and `target` there."""

    host: HostSpec
    rsync_there: str
    base: str
    paths: tuple[str, ...]
    target: str
    known: str
    """A directory there that may have older versions, relative to `target`."""


def rsync_command(order: RsyncOrder, paths_file: str, *, is_telling: bool = False) -> list[str]:
    """Give the words that bring the files to the host, whatever of them is there already."""
    return [
        "rsync",
        # Links were found to stay inside; what they lead to is copied.
        *("--copy-links", "--ignore-times", "--protect-args", f"--timeout={SILENCE_S}"),
        *(("--info=progress2", "--outbuf=N") if is_telling else ()),
        *("--from0", f"--files-from={paths_file}", f"--copy-dest={order.known}"),
        *("-e", _join_for_rsync(ssh_words(order.host)), f"--rsync-path={order.rsync_there}"),
        "--",
        f"{order.base.rstrip('/')}/",
        f"{order.host.name}:{order.target}/",
    ]


@functools.cache
def tells_progress() -> bool:
    """Tell whether the rsync of this machine can say how much it has sent."""
    program = shutil.which("rsync")
    if program is None:
        return False
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    found = _VERSION.match(done.stdout)
    return found is not None and (int(found[1]), int(found[2])) >= _TELLS_FROM


def read_progress(said: str) -> int:
    """Give the bytes in the last line that `--info=progress2` has written; 0 without one."""
    for line in reversed(re.split(r"[\r\n]", said)):
        words = line.split()
        if len(words) >= 2 and words[1].endswith("%"):
            return int(re.sub(r"\D", "", words[0]) or 0)  # thousands are marked as people do here
    return 0


def _join_for_rsync(words: Sequence[str]) -> str:
    """Quote as rsync reads its `-e`, which knows quotes and doubled quotes, but no backslash."""
    return " ".join(
        word if _PLAIN.fullmatch(word) else "'" + word.replace("'", "''") + "'" for word in words
    )


def find_cause(said: str) -> str:
    """Give the line that says most: that of ssh or the host rather than what rsync makes of it."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    from_others = [line for line in lines if not line.startswith("rsync")]
    return (from_others[-1:] or lines[:1] or ["it said nothing"])[0]


class RsyncRun:
    """One rsync under way; `close` ends it and removes what it needed here."""

    def __init__(self, order: RsyncOrder) -> None:
        self.host = order.host.name
        self._folder = make_private_dir()
        paths_file, self._log_path = self._folder / "paths", self._folder / "log"
        self._progress_path = self._folder / "progress"
        # With `./`, because rsync takes a path that begins with # or ; for a comment.
        paths_file.write_bytes(b"".join(f"./{path}\0".encode() for path in order.paths))
        try:
            with self._log_path.open("wb") as log, self._progress_path.open("wb") as progress:
                self._process = subprocess.Popen(
                    rsync_command(order, str(paths_file), is_telling=tells_progress()),
                    stdin=subprocess.DEVNULL,
                    stdout=progress,
                    stderr=log,
                    start_new_session=True,  # a Ctrl-C is ours to act on
                )
        except BaseException:
            shutil.rmtree(self._folder)
            raise

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end, at most so long; tell whether it has come."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    @property
    def moved_bytes(self) -> int:
        """How much it has sent, as far as it says so; it is a little ahead of what has arrived."""
        with self._progress_path.open("rb") as progress:
            progress.seek(max(0, progress.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return read_progress(progress.read().decode(errors="replace"))

    @property
    def problem(self) -> str:
        """Why it did not bring everything, once it has ended; else empty."""
        status = self._process.returncode
        if not status:
            return ""
        said = self._log_path.read_text(errors="replace")
        return f"rsync ended with status {status} ({find_cause(said)})"

    def close(self) -> None:
        """End it, with its ssh, if it still runs."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not self.wait(0.0 if number is signal.SIGTERM else END_TIMEOUT_S):
                os.killpg(self._process.pid, number)
        self._process.wait()
        shutil.rmtree(self._folder)
