import sys

import pytest

from jupyter_dist.cluster.taking_part import name_us


@pytest.mark.parametrize(
    ("argv", "kernel", "notebook", "name"),
    [
        (["/lib/ipykernel_launcher.py"], True, "/home/me/train.ipynb", "notebook train.ipynb"),
        (["/lib/ipykernel_launcher.py"], True, "", "a notebook"),
        (["/bin/ipython"], False, "", "an IPython"),
        (["/home/me/train.py"], False, "", "program train.py"),
        (["-c"], False, "", "a Python"),
        ([""], False, "", "a Python"),
        ([], False, "", "a Python"),
    ],
)
def test_a_process_is_named_as_a_person_knows_it(monkeypatch, argv, kernel, notebook, name):
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setenv("JPY_SESSION_NAME", notebook)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    if kernel:
        monkeypatch.setitem(sys.modules, "ipykernel", sys)
    assert name_us() == name
