import sys
from types import SimpleNamespace

import IPython
import pytest

from jupyter_dist.cluster.connection.roles import kernel_id, name_us

KERNEL, TERMINAL = SimpleNamespace(kernel=object()), SimpleNamespace(kernel=None)


@pytest.mark.parametrize(
    ("argv", "shell", "notebook", "name"),
    [
        (["/lib/ipykernel_launcher.py"], KERNEL, "/home/me/train.ipynb", "notebook train.ipynb"),
        (["/lib/ipykernel_launcher.py"], TERMINAL, "", "a notebook"),
        (["/home/me/with_a_kernel_inside.py"], KERNEL, "", "a notebook"),
        (["/bin/ipython"], TERMINAL, "", "an IPython"),
        (["/home/me/train.py"], TERMINAL, "", "program train.py"),
        (["/home/me/loads_ipykernel.py"], None, "", "program loads_ipykernel.py"),
        (["-c"], None, "", "a Python"),
        ([""], None, "", "a Python"),
        ([], None, "", "a Python"),
    ],
)
def test_a_process_is_named_as_a_person_knows_it(monkeypatch, argv, shell, notebook, name):
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setenv("JPY_SESSION_NAME", notebook)
    monkeypatch.setattr(IPython, "get_ipython", lambda: shell)
    assert name_us() == name


@pytest.mark.parametrize(
    ("file", "number"), [("/run/kernel-12-ab.json", "12-ab"), ("/tmp/mine.json", "mine"), ("", "")]
)
def test_a_kernel_knows_its_number_from_its_connection_file(monkeypatch, file, number):
    app = SimpleNamespace(connection_file=file)
    kind = SimpleNamespace(initialized=lambda: bool(file), instance=lambda: app)
    monkeypatch.setitem(sys.modules, "ipykernel.kernelapp", SimpleNamespace(IPKernelApp=kind))
    assert kernel_id() == number


def test_who_has_not_loaded_ipykernel_is_no_kernel(monkeypatch):
    monkeypatch.delitem(sys.modules, "ipykernel.kernelapp", raising=False)
    assert kernel_id() == ""
