"""The rank's shell inside the test process: made once, as in a zygote."""

import gc
import os

import pytest
from IPython.core.interactiveshell import InteractiveShell

from jupyter_dist.engine.shell.rank_shell import RankShell, make_shell


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    before = os.environ.get("IPYTHONDIR")
    InteractiveShell.clear_instance()
    shell = make_shell(str(tmp_path_factory.mktemp("ipython")))
    gc.collect()
    gc.freeze()  # each reset of the shell collects garbage
    yield shell
    RankShell.clear_instance()
    shell.restore_sys_module_state()
    if before is None:
        del os.environ["IPYTHONDIR"]
    else:
        os.environ["IPYTHONDIR"] = before


@pytest.fixture
def shown():
    return []


@pytest.fixture
def shell(made, shown, tmp_path):
    made.tell_where(shown.append, str(tmp_path), writes_sources=True)
    made.reset(new_session=False)
    made.last_traceback = ()
    return made
