"""IPython shells of tests."""

import atexit
from contextlib import contextmanager

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config


@contextmanager
def shell_with_magics(folder):
    """Make a shell whose files are in this folder, with our extension loaded."""
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("IPYTHONDIR", str(folder))
        InteractiveShell.clear_instance()
        shell = InteractiveShell.instance(config=config)
        shell.run_line_magic("load_ext", "jupyter_dist")
        yield shell
        shell.run_line_magic("unload_ext", "jupyter_dist")
        shell.restore_sys_module_state()
        InteractiveShell.clear_instance()
        # What a shell does at the exit takes a third of a second, and there is one for each test.
        atexit.unregister(shell.atexit_operations)
