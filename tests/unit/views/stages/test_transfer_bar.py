from contextlib import suppress

import pytest

from jupyter_dist.protocol.messages import TransferMoved
from jupyter_dist.text.sizes import MIB
from jupyter_dist.views.cell.terminal import Terminal
from jupyter_dist.views.stages.transfer_bar import TransferBar


@pytest.fixture
def bar(notebook, clock):
    return TransferBar(display=notebook, clock=clock)


def moved(megabytes, total=1000, where="to a, b"):
    return TransferMoved("r", megabytes * MIB, total * MIB, where)


def test_bytes_speed_and_the_rest_of_the_time_are_shown(bar, notebook, clock):
    bar.on_moved(moved(100))
    clock.now_s += 1.0
    bar.on_moved(moved(300))
    assert notebook.bundles[0]["text/plain"].endswith("to a, b · 100 of 1000 MiB · 0 s")
    assert notebook.bundles[1]["text/plain"] == (
        f"{'█' * 6}{'░' * 14} to a, b · 300 of 1000 MiB · 200 MiB/s · 4 s left"
    )
    assert "width:30%" in notebook.bundles[1]["text/html"]


def test_the_speed_is_that_of_the_last_seconds(bar, notebook, clock):
    for megabytes in (0, 500, 510, 520, 530, 540):
        bar.on_moved(moved(megabytes))
        clock.now_s += 1.0
    assert "10 MiB/s · 46 s left" in notebook.bundles[-1]["text/plain"]


def test_the_second_part_of_the_way_has_a_speed_of_its_own(bar, notebook, clock):
    bar.on_moved(moved(900, where="to the coordinator"))
    clock.now_s += 1.0
    bar.on_moved(moved(100))
    assert "/s" not in notebook.bundles[-1]["text/plain"]
    clock.now_s += 1.0
    bar.on_moved(moved(200))
    assert "100 MiB/s" in notebook.bundles[-1]["text/plain"]


def test_where_no_total_is_known_the_time_that_went_by_is_shown(bar, notebook, clock):
    clock.now_s += 4.2
    bar.on_moved(moved(0, 0, "from rank <c>"))
    assert notebook.bundles[-1]["text/plain"] == "from rank <c> · 4 s"
    assert "from rank &lt;c&gt; · 4 s" in notebook.bundles[-1]["text/html"]
    assert "width" not in notebook.bundles[-1]["text/html"]


def test_what_is_over_soon_shows_nothing(bar, notebook):
    with bar:
        pass
    assert notebook.bundles == []


@pytest.mark.parametrize("error", [None, KeyboardInterrupt()])
def test_nothing_is_left_of_it_in_a_notebook_after_an_error_either(bar, notebook, error):
    with suppress(KeyboardInterrupt), bar:
        bar.on_moved(moved(1))
        if error is not None:
            raise error
    assert len(notebook.bundles) == 2
    assert notebook.bundles[-1] == {"text/html": "", "text/plain": ""}


@pytest.mark.parametrize("is_tty", [True, False])
def test_a_terminal_has_it_in_its_status_line_and_a_file_gets_nothing(clock, is_tty):
    written = []
    with TransferBar(display=Terminal(written.append, is_tty=is_tty), clock=clock) as bar:
        bar.on_moved(moved(500))
    assert [text.startswith("█" * 10 + "░") for text in written] == [True, False] * is_tty
    assert all(text == "\r\x1b[K" for text in written[1:])
