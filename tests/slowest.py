"""Which tests take longest, and where: `make slowest` writes `tests/slowest.md`.

A pytest plugin that looks twenty times a second at which line a test is, and a program that makes a
table of what it found.
"""

import collections
import json
import linecache
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from jupyter_dist.frameworks.thread_frames import read_calls

FOUND = os.environ.get("SLOWEST_FOUND", "")
"""The file to which each worker adds a line for each test."""
EACH_S = 0.05
MOST, LINES, LEAST = 100, 2, 0.1
TESTS = Path(__file__).parent


class Looks(threading.Thread):
    """Counts at which lines of the tests one thread is."""

    def __init__(self):
        super().__init__(daemon=True)
        self._thread = threading.get_ident()
        self._is_over = threading.Event()
        self.lines, self.times = collections.Counter(), 0

    def run(self):
        """Look until it is over."""
        while not self._is_over.wait(EACH_S):
            self.times += 1
            for frame, line in reversed(read_calls().get(self._thread, [])):
                # There is none while Playwright's event loop has the thread.
                if frame.f_code.co_filename.startswith(str(TESTS)):
                    self.lines[frame.f_code.co_filename, line] += 1
                    break

    def end(self):
        """Look no more."""
        self._is_over.set()
        self.join()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Add a line to what was found: the test, its seconds, and its lines with their shares."""
    looks, began_s = Looks(), time.monotonic()
    looks.start()
    try:
        return (yield)
    finally:
        looks.end()
        took_s = time.monotonic() - began_s
        where = [
            (round(count / looks.times, 2), linecache.getline(path, line).strip())
            for (path, line), count in looks.lines.most_common(LINES)
        ]
        with open(FOUND, "a", encoding="utf-8") as file:
            file.write(json.dumps([item.nodeid, round(took_s, 1), where]) + "\n")


def table(found):
    """Return the slowest tests of what was found, with the lines at which they were most."""
    rows = sorted((json.loads(line) for line in found), key=lambda row: -row[1])
    all_s, most_s = (sum(row[1] for row in some) for some in (rows, rows[:MOST]))
    lines = [
        "# The slowest tests, and where they wait",
        "",
        f"{len(rows):,} tests took {all_s:,.0f} s; the {MOST} slowest of them {most_s:,.0f} s.",
        "Written by `make slowest`.",
        "",
        "| s | test | where it is most of the time |",
        "| ---: | --- | --- |",
    ]
    for test, took_s, where in rows[:MOST]:
        file, _, name = test.removeprefix("tests/").partition("::")
        words = [f"{share:.0%} `{text}`" for share, text in where if share >= LEAST]
        lines.append(
            f"| {took_s} | `{file}` {name.replace('|', '/')} | {'; '.join(words).replace('|', '/')} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()))
