"""Finding the coordinator: every 127.x address stands for another way, with something at its end."""

import contextlib
import socket
import ssl
import threading

import pytest

from jupyter_dist.agent.connection import dial
from jupyter_dist.agent.connection.dial import CoordinatorUnreachable, Found, find_home
from jupyter_dist.coordinator.agents.certificates import Authority
from jupyter_dist.launch.launcher import JoinTicket, Ports
from jupyter_dist.version import WIRE
from tests.facts import assert_tells

HTTP = b"HTTP/1.0 400 Bad Request\r\n\r\n"


class Town:
    """Addresses on which someone answers, all on the same three ports."""

    def __init__(self, stack, folder):
        self._stack = stack
        self._folder = folder
        self.authority = Authority()
        # Bound, so that nobody else gets these numbers; nobody listens there.
        held = [stack.enter_context(socket.socket()) for _ in range(3)]
        for each in held:
            each.bind(("127.0.0.99", 0))
        self.ports = Ports(*(each.getsockname()[1] for each in held))

    def coordinator(self, address, certificate=None, ports=None):
        """Someone who can prove (or not) to be the coordinator, on all of its ports or on some."""
        if ports is None:
            ports = (self.ports.agents, self.ports.engines, self.ports.beats)
        for port in ports:
            own = certificate or self.authority.issue_server()
            self._serve(address, port, self._context(own) if port == self.ports.agents else None)
        return address

    def stranger(self, address, says=b"", port=None):
        """A program that has nothing to do with us: it says this and hangs up, or never does."""
        self._serve(address, port or self.ports.agents, says=says, hangs_up=bool(says))
        return address

    def silent(self, address, port=None):
        """A port that drops whoever comes, as a firewall does: nobody takes its callers in."""
        listener = self._stack.enter_context(socket.socket())
        listener.bind((address, port or self.ports.agents))
        listener.listen(0)
        for _ in range(4):  # more than it lets wait
            caller = self._stack.enter_context(socket.socket())
            caller.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                caller.connect(listener.getsockname())
        return address

    def invite(self, *homes):
        """An invitation to these addresses."""
        return JoinTicket(
            wire=WIRE,
            cluster="demo",
            host="a",
            homes=homes,
            ports=self.ports,
            dial_timeout_s=5.0,
            ca_certificate=self.authority.certificate,
            certificate=b"",
            private_key=b"",
        )

    def _context(self, issued):
        path = self._folder / f"{id(issued)}.pem"
        path.write_bytes(issued.certificate + issued.private_key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    def _serve(self, address, port, context=None, says=b"", *, hangs_up=False):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.create_server((address, port), family=family)
        inside = contextlib.ExitStack()

        def attend():
            with contextlib.suppress(OSError):  # it was closed: the test is over
                while True:
                    visitor = inside.enter_context(listener.accept()[0])
                    visitor.settimeout(5)
                    visitor.sendall(says)
                    if hangs_up:
                        visitor.close()
                    elif context is not None:
                        with contextlib.suppress(OSError):
                            visitor = context.wrap_socket(visitor, server_side=True)
                            inside.enter_context(visitor)

        thread = threading.Thread(target=attend)
        thread.start()
        self._stack.callback(inside.close)
        self._stack.callback(thread.join)
        self._stack.callback(listener.close)
        self._stack.callback(listener.shutdown, socket.SHUT_RDWR)


@pytest.fixture
def town(tmp_path):
    with contextlib.ExitStack() as stack:
        yield Town(stack, tmp_path)


@pytest.fixture
def impatient(monkeypatch):
    """Silence is believed sooner."""
    monkeypatch.setattr(dial, "ATTEMPT_TIMEOUT_S", 1.0)
    monkeypatch.setattr(dial, "PROOF_TIMEOUT_S", 1.0)


def failure(ticket):
    with pytest.raises(CoordinatorUnreachable) as caught:
        find_home(ticket)
    return str(caught.value)


def test_the_coordinator_is_found_among_all_that_is_not_it(town, within):
    refusing = "127.0.0.2"
    others = [
        refusing,
        town.silent("127.0.0.3"),
        town.coordinator("127.0.0.4", Authority().issue_server()),
        town.stranger("127.0.0.5", HTTP),
        town.stranger("127.0.0.6"),
    ]
    right = town.coordinator("127.0.0.7")
    with within(2):
        found = find_home(town.invite(*others, right))
    assert found.address == right
    assert found.local_address == "127.0.0.1"
    for told in found.failed:
        assert told.startswith(tuple(f"{address} " for address in others))


@pytest.mark.parametrize("order", [("127.0.0.2", "127.0.0.3"), ("127.0.0.3", "127.0.0.2")])
def test_of_several_ways_that_work_the_likeliest_is_taken(town, monkeypatch, order):
    monkeypatch.setattr(dial, "PREFERENCE_S", 5.0)  # all of them answer within that
    for address in order:
        town.coordinator(address)
    assert find_home(town.invite(*order)) == Found(order[0], "127.0.0.1")


def test_ways_that_do_not_work_are_told_beside_the_one_that_does(town, monkeypatch):
    monkeypatch.setattr(dial, "PREFERENCE_S", 5.0)
    found = find_home(town.invite("127.0.0.2", town.coordinator("127.0.0.3")))
    (failed,) = found.failed
    assert_tells(failed, "127.0.0.2 ", f"port {town.ports.agents} (Connection refused)")


def test_the_way_home_may_be_ipv6(town):
    try:
        town.coordinator("::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    assert find_home(town.invite("127.0.0.2", "::1")).address == "::1"


def test_on_the_coordinators_machine_and_through_a_tunnel_there_is_nothing_to_find(town):
    assert find_home(town.invite("127.0.0.1")) == Found("127.0.0.1", "127.0.0.1")


# --- no way home ---


def test_each_address_is_named_with_its_reason_in_the_order_they_were_given(
    town, impatient, within
):
    silent, foreign = "127.0.0.3", "127.0.0.4"
    town.silent(silent)
    town.coordinator(foreign, Authority().issue_server())
    port = town.ports.agents
    with within(4):
        told = failure(town.invite(silent, "127.0.0.2", foreign))
    assert_tells(
        told,
        "cluster 'demo'",
        *("127.0.0.3 stayed silent", f"port {port} (a firewall", "; "),
        *("127.0.0.2 ", f"port {port} (Connection refused); "),
        *("127.0.0.4 answered", f"port {port}, but", "coordinator ("),
    )


@pytest.mark.parametrize("says", [HTTP, b"SSH-2.0-OpenSSH_9.2\r\n", b"\x00" * 100])
def test_another_program_is_not_taken_for_the_coordinator(town, impatient, says):
    told = failure(town.invite(town.stranger("127.0.0.2", says)))
    assert_tells(told, "127.0.0.2 answered", f"port {town.ports.agents}, but", "coordinator")


def test_a_program_that_waits_to_be_spoken_to_is_not_waited_for(town, impatient, within):
    with within(4):
        told = failure(town.invite(town.stranger("127.0.0.2")))
    assert_tells(told, "127.0.0.2 stayed silent", f"port {town.ports.agents}")


def test_an_agents_certificate_does_not_make_a_coordinator(town):
    agent = town.authority.issue_agent("a")
    told = failure(town.invite(town.coordinator("127.0.0.2", agent)))
    assert_tells(told, "127.0.0.2 answered", "coordinator", "purpose")


@pytest.mark.parametrize("kind", ["engines", "beats"])
@pytest.mark.parametrize("is_silent", [False, True], ids=["closed", "behind a firewall"])
def test_a_port_that_is_not_open_beside_others_is_named(town, impatient, kind, is_silent):
    port = getattr(town.ports, kind)
    open_ports = {town.ports.agents, town.ports.engines, town.ports.beats} - {port}
    town.coordinator("127.0.0.2", ports=open_ports)
    if is_silent:
        town.silent("127.0.0.2", port)
    why = "(a firewall" if is_silent else "(Connection refused)"
    assert_tells(failure(town.invite("127.0.0.2")), "127.0.0.2 ", f"port {port} {why}")


def test_a_cluster_without_addresses_says_so(town):
    assert_tells(failure(town.invite()), "cluster 'demo'", "has none")


def test_addresses_that_fail_alike_are_named_together(town):
    port = town.ports.agents
    told = failure(town.invite("127.0.0.2", "127.0.0.3"))
    assert_tells(told, ": 127.0.0.2, 127.0.0.3 ", f"port {port} (Connection refused)")
    assert told.count("Connection refused") == 1
