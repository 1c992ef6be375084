from types import SimpleNamespace

import psutil
import pytest

from jupyter_dist.views.cell import display_place as place

KERNEL = SimpleNamespace(kernel=object())


@pytest.mark.parametrize(
    ("shell", "parent", "expected"),
    [
        (KERNEL, ["/usr/bin/python", "/usr/bin/jupyter-lab", "--no-browser"], True),
        (KERNEL, ["/usr/bin/python", "/usr/bin/jupyter-console"], False),
        (KERNEL, ["python", "-m", "jupyter_console"], False),
        (KERNEL, [], True),
        (SimpleNamespace(), ["python"], False),
    ],
)
def test_outputs_are_replaced_where_a_front_end_draws_them_again(
    monkeypatch, shell, parent, expected
):
    place._is_console.cache_clear()
    monkeypatch.setattr(psutil, "Process", lambda _: SimpleNamespace(cmdline=lambda: parent))
    assert place.can_replace(shell) == expected
    place._is_console.cache_clear()
