import io

import pytest

from jupyter_dist.views.cell.terminal import Terminal, has_colours


class Stream(io.StringIO):
    """A stream that a person sees, or does not."""

    def __init__(self, *, is_seen):
        super().__init__()
        self.isatty = lambda: is_seen


@pytest.mark.parametrize(
    ("is_seen", "refused", "coloured"),
    [(True, None, True), (True, "", True), (True, "1", False), (False, None, False)],
)
def test_colours_are_for_terminals_where_they_are_not_refused(
    monkeypatch, is_seen, refused, coloured
):
    monkeypatch.delenv("NO_COLOR", raising=False)
    if refused is not None:
        monkeypatch.setenv("NO_COLOR", refused)
    assert has_colours(Stream(is_seen=is_seen)) is coloured
    assert Terminal(is_tty=is_seen).has_colours is coloured
