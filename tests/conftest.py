"""What holds for all tests."""

import gc
import os
import signal
import sys
from collections import defaultdict

import jedi.settings
import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So shells start what runs in the background; all processes of the tests would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A defect of a coordinator is to be seen, and not survived.
os.environ["JUPYTER_DIST_OWN_ERRORS"] = "fatal"

# So that clusters name who drives them alike in each worker of pytest-xdist, which has no name.
sys.argv[0] = "pytest"


@pytest.fixture(scope="session", autouse=True)
def own_cache_of_jedi(tmp_path_factory):
    """A worker reads what it has written: half a file of another one completes nothing."""
    jedi.settings.cache_directory = str(tmp_path_factory.mktemp("jedi"))


def pytest_collection_modifyitems(items):
    """Let files of all folders take turns: some wait, for hosts and pages, while others compute."""
    folders = defaultdict(dict)
    for item in items:
        folders[item.path.parent].setdefault(item.path, len(folders[item.path.parent]))
    turns = {
        file: (place + 0.5) / len(places)
        for places in folders.values()
        for file, place in places.items()
    }
    items.sort(key=lambda item: turns[item.path])


def pytest_collection_finish():
    """Let no collection of garbage look through all tests again: it would take a second each."""
    gc.collect()
    gc.freeze()
