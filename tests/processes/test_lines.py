"""What the coordinator's end keeps for lines of clients: bounded, and told where some is missing."""

from contextlib import closing, contextmanager

import pytest

from jupyter_dist.control import router as routers
from jupyter_dist.control.context import new_context
from jupyter_dist.control.dealer import AnswersLost, Dealer
from jupyter_dist.control.keys import make_key_pair
from jupyter_dist.control.router import Doorkeeper, Router
from jupyter_dist.protocol.codec import from_client, to_client
from jupyter_dist.protocol.credentials import Credentials
from jupyter_dist.protocol.messages import CellsListed, ListCells

from .leftovers import wait_until
from .test_resets import can_reset, reset

LINE = b"client-1-name.1"


@contextmanager
def _home():
    """A router for clients; gives it, its port, and what a line needs to dial."""
    server, client = make_key_pair(), make_key_pair()
    context = new_context()
    doorkeeper = Doorkeeper(context)
    doorkeeper.admit("clients", client.public)
    with closing(Router(context, "clients", server, from_client())) as router:
        port = router.bind("127.0.0.1")
        yield router, port, Credentials(server.public, client)
    doorkeeper.close()
    context.destroy(0)


@pytest.fixture
def home():
    with _home() as home:
        yield home


@pytest.fixture
def line(home):
    _router, port, credentials = home
    with closing(Dealer(f"tcp://127.0.0.1:{port}", credentials, to_client(), LINE)) as line:
        yield line


def ask(line, router, number):
    """Send a question and take it in at the other end."""
    line.send(ListCells(str(number)))
    taken = []
    wait_until(lambda: taken.extend(router.receive()) or taken, 5, "the question")
    assert [received.message.request_id for received in taken] == [str(number)]


def hear(line):
    """Return the ids of what has come, and keep the connection up."""
    line.wait(0.1)
    ids = [message.request_id for message, _frames in line.receive()]
    line.silence_s()
    return ids


def hears(line, router, ids):
    heard = []

    def goes_on():
        assert not list(router.receive()), "nothing is said twice"
        heard.extend(hear(line))
        return len(heard) >= len(ids)

    wait_until(goes_on, 10, f"{ids}; came {heard}")
    assert heard == ids


@pytest.mark.skipif(not can_reset(), reason="root and `ss -K` reset connections")
def test_answers_that_a_reset_has_lost_come_once_and_in_order(home, line):
    router, port, _credentials = home
    ask(line, router, 1)
    reset(port)
    for number in range(10):
        router.send(LINE, CellsListed(str(number), ()))
    hears(line, router, [str(number) for number in range(10)])


@pytest.mark.skipif(not can_reset(), reason="root and `ss -K` reset connections")
@pytest.mark.parametrize("why", ["too much", "silent too long"])
def test_a_line_hears_that_answers_are_lost_which_were_not_kept(home, line, monkeypatch, why):
    router, port, _credentials = home
    ask(line, router, 1)
    if why == "too much":
        monkeypatch.setattr(routers, "KEPT_BYTES", 10)
    reset(port)
    router.send(LINE, CellsListed("lost", ()))
    for _ in range(1 if why == "too much" else routers.MOST_SILENT + 2):
        router.keep_less()

    def is_told():
        list(router.receive())
        try:
            assert hear(line) == []
        except AnswersLost:
            return True
        return False

    wait_until(is_told, 10, "that something is lost")
    ask(line, router, 2)
    router.send(LINE, CellsListed("later", ()))
    hears(line, router, ["later"])


def test_a_line_that_is_closed_is_forgotten_at_once(home):
    router, port, credentials = home
    with closing(Dealer(f"tcp://127.0.0.1:{port}", credentials, to_client(), LINE)) as line:
        ask(line, router, 1)
        router.send(LINE, CellsListed("1", ()))
        assert LINE in router._ledgers
        hears(line, router, ["1"])
    wait_until(lambda: list(router.receive()) or LINE not in router._ledgers, 5, "it is forgotten")
