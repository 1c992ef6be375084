import sys
from types import SimpleNamespace

import IPython
import pytest

from jupyter_dist.cluster.connection.roles import name_us


@pytest.mark.parametrize(
    ("argv", "kernel", "notebook", "name"),
    [
        (["/lib/ipykernel_launcher.py"], object(), "/home/me/train.ipynb", "notebook train.ipynb"),
        (["/lib/ipykernel_launcher.py"], None, "", "a notebook"),
        (["/home/me/with_a_kernel_inside.py"], object(), "", "a notebook"),
        (["/bin/ipython"], None, "", "an IPython"),
        (["/home/me/train.py"], None, "", "program train.py"),
        (["-c"], None, "", "a Python"),
        ([""], None, "", "a Python"),
        ([], None, "", "a Python"),
    ],
)
def test_a_process_is_named_as_a_person_knows_it(monkeypatch, argv, kernel, notebook, name):
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setenv("JPY_SESSION_NAME", notebook)
    monkeypatch.setattr(IPython, "get_ipython", lambda: SimpleNamespace(kernel=kernel))
    assert name_us() == name


def test_who_has_only_loaded_ipykernel_is_no_notebook(monkeypatch):
    pytest.importorskip("ipykernel")
    monkeypatch.setattr(sys, "argv", ["/home/me/train.py"])
    monkeypatch.setattr(IPython, "get_ipython", lambda: None)
    assert name_us() == "program train.py"
