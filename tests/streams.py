"""Run all tests in two streams side by side: `python tests/streams.py [options of pytest]`.

Most tests wait for processes and not for the processor, so that two streams end in little more
than half the time of one. Each stream keeps the order of `testpaths`, its lines bear its name, and
what pytest says of failures comes when the stream ends. Whoever names tests gets plain pytest.
"""

import compileall
import os
import signal
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOSTS = (
    "tests/faults",
    "tests/hostile",
    "tests/gpu",
    "tests/hosts",
    "tests/batch",
    "tests/notebooks",
    "tests/browser",
)
"""The second stream: only one at a time may build hosts, and the browser wants its ranks quick."""
NOTHING_TO_RUN = 5
"""So pytest ends where options choose none of the tests; the other stream may have some."""


def folders_by_stream():
    """Give the folders of each stream; what nobody has put into the second is in the first."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folders = config["tool"]["pytest"]["ini_options"]["testpaths"]
    return {
        "ranks": [folder for folder in folders if folder not in HOSTS],
        "hosts": [folder for folder in folders if folder in HOSTS],
    }


def start(name, folders, options):
    """Start pytest in a group of its own, so that Ctrl-C reaches it once."""
    cache = ["-o", f"cache_dir={ROOT / '.pytest_cache' / name}"]
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *cache, *options, *folders],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def pass_on(name, stream, failures):
    """Print its lines with its name before each; note which tests have failed."""
    for line in stream.stdout:
        if line.startswith(("FAILED ", "ERROR ")):
            failures.append(f"{name}: {line.rstrip()}")
        sys.stdout.write(f"[{name}] {line}")
        sys.stdout.flush()


def compile_once():
    """Keep our modules compiled: where Python is told not to, each process of each cluster would.

    A cluster of two hosts is five processes that load them, and there are hundreds of clusters.
    """
    for folder in ("jupyter_dist", "tests"):
        compileall.compile_dir(ROOT / folder, quiet=2)


def run(options):
    """Run all streams to their ends; 0 when all tests of all streams, at least one, have passed."""
    compile_once()
    streams = {name: start(name, each, options) for name, each in folders_by_stream().items()}
    failures = []
    readers = [threading.Thread(target=pass_on, args=(*pair, failures)) for pair in streams.items()]
    for reader in readers:
        reader.start()
    try:
        statuses = [stream.wait() for stream in streams.values()]
    except (KeyboardInterrupt, SystemExit):
        for stream in streams.values():
            stream.send_signal(signal.SIGINT)  # it tidies up, and says how far it was
        statuses = [stream.wait() for stream in streams.values()]
    for reader in readers:
        reader.join()
    print(*failures, sep="\n")  # the streams' own summaries are far apart
    for name, status in zip(streams, statuses, strict=True):
        print(f"{name}: {'passed' if status == 0 else f'pytest ended with status {status}'}")
    return 0 if set(statuses) - {NOTHING_TO_RUN} == {0} else 1


def names_tests(options):
    """Tell whether somebody has chosen tests by path."""
    return any((ROOT / option.partition("::")[0]).exists() for option in options)


if __name__ == "__main__":
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda *_: sys.exit(1))
    given = sys.argv[1:]
    if names_tests(given):
        os.execv(sys.executable, [sys.executable, "-m", "pytest", *given])
    sys.exit(run(given))
