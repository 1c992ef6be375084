"""The list, where looking for clusters goes wrong."""

import pytest

from jupyter_dist.server import listing
from jupyter_dist.server.listing import Listing

pytestmark = pytest.mark.timeout(60)


class Looks:
    """Finds what the test wants, or raises it."""

    found = ()

    def look(self):
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    def rest(self): ...

    def close(self): ...


@pytest.fixture
def looks(monkeypatch):
    looks = Looks()
    monkeypatch.setattr(listing, "Looks", lambda: looks)
    return looks


def test_a_problem_is_logged_once_until_it_has_gone_or_is_another_one(looks, caplog):
    wanted = Listing(lambda _rows: None)

    def see(found):
        looks.found = found
        if isinstance(found, Exception):
            with pytest.raises(type(found)):
                wanted.ask().result(5)
        else:
            assert wanted.ask().result(5) == found

    try:
        for found in (OSError("a"), OSError("a"), OSError("b"), OSError("b"), (), OSError("b")):
            see(found)
    finally:
        wanted.close()
    assert [str(record.exc_info[1]) for record in caplog.records] == ["a", "b", "b"]
