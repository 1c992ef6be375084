"""When a save is broken off: how far it is is read from its directory, while it runs."""

import os
import select
import threading
import time
from dataclasses import dataclass
from pathlib import Path

PHASES = ("begun", "staged", "writing", "written", "sealed", "committed")
"""What can be seen of a save: nothing yet, its staging directory, parts that grow, parts that are
whole, a manifest beside them, and the checkpoint under its own name."""
NEVER_S = 20.0
"""A save that has not come to a phase by then does not come to it any more."""
_POLL_S = 0.0005


def phase_of(directory: Path, step: int, whole_bytes: int) -> str:
    """How far the save of this step is; all its parts have `whole_bytes` in the end."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return "begun"
    if f"step-{step:08d}" in names:
        return "committed"
    staging = [name for name in names if name.startswith(f".saving-step-{step:08d}-")]
    if not staging:
        return "begun"
    try:
        with os.scandir(directory / staging[0]) as entries:
            files = {entry.name: entry.stat() for entry in entries}
    except FileNotFoundError:  # it has just been renamed, or swept
        return phase_of(directory, step, whole_bytes)
    if any("manifest" in name for name in files):
        return "sealed"
    sizes = [stat.st_blocks * 512 for name, stat in files.items() if name.startswith("arrays-")]
    if sum(sizes) >= whole_bytes:
        return "written"
    return "writing" if any(sizes) else "staged"


def bytes_of(checkpoint: Path) -> int:
    """What the parts of a checkpoint have on the disk."""
    return sum(part.stat().st_blocks * 512 for part in checkpoint.glob("arrays-*"))


@dataclass(frozen=True)
class Moment:
    """So many seconds after a save has come to a phase."""

    phase: str
    delay_s: float = 0.0

    def __str__(self):
        return f"{1e3 * self.delay_s:.1f} ms after {self.phase!r}"


class Bell:
    """A pipe with a name: ranks ring it right before they save, and a test hears it at once."""

    def __init__(self, path):
        self.path = path
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    @property
    def ring(self):
        """Code that a rank runs."""
        return f"with open({str(self.path)!r}, 'w') as bell: _ = bell.write('.')\n"

    def wait(self, within_s):
        """Wait for the first one; tell whether it came."""
        readable, _, _ = select.select([self._fd], [], [], within_s)
        return bool(readable)

    def clear(self):
        """Forget who has rung."""
        while select.select([self._fd], [], [], 0)[0]:
            os.read(self._fd, 4096)

    def close(self):
        """Nobody rings it any more."""
        os.close(self._fd)


class Strike(threading.Thread):
    """Does something at a moment of the next save, and notes in which phase that was."""

    def __init__(self, bell, moment, look, deed):
        """`look` tells the phase of the save now; `deed` is called at the moment."""
        super().__init__(daemon=True)
        self._bell, self._moment, self._look, self._deed = bell, moment, look, deed
        self.phase = ""
        """In which it was done; empty as long as it has not been."""
        bell.clear()
        self.start()

    def run(self):
        if not self._bell.wait(NEVER_S):
            return
        deadline_s = time.monotonic() + NEVER_S
        wanted = PHASES.index(self._moment.phase)
        while PHASES.index(self._look()) < wanted:
            if time.monotonic() > deadline_s:
                return
            time.sleep(_POLL_S)
        # What takes fractions of a millisecond is not waited for by sleeping.
        due_s = time.monotonic() + self._moment.delay_s
        while (left_s := due_s - time.monotonic()) > 0:
            time.sleep(min(left_s, _POLL_S))
        self.phase = self._look()
        self._deed()


def time_phases(bell, look, save):
    """Save once; give when each phase was first seen, in seconds from the beginning."""
    seen, is_over = {}, threading.Event()

    def watch():
        if bell.wait(NEVER_S):
            began_s = time.monotonic()
            while not is_over.is_set():
                seen.setdefault(look(), time.monotonic() - began_s)
                time.sleep(_POLL_S)
            seen.setdefault(look(), time.monotonic() - began_s)

    bell.clear()
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        save()
    finally:
        is_over.set()
        watcher.join()
    return seen
