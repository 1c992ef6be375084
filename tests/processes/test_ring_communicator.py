"""Rings of real processes: what they compute, and what each rank says when one fails."""

import functools
import json
import os
import re
import signal
import socket
import threading
import time
from contextlib import closing, contextmanager, suppress

import pytest

from jupyter_dist.collective.group import Group
from jupyter_dist.collective.host import HostCommunicator
from jupyter_dist.collective.ring.addresses import address_of, bind_listener
from jupyter_dist.collective.ring.transport import RingTransport
from jupyter_dist.errors import PeerFailed
from tests.facts import assert_tells
from tests.matrix import only
from tests.patience import Stopwatch, let_pass

from .fork_server import ForkServer

DEADLINE_S = 150.0


class Ring:
    """Processes of one scenario, and what they have said."""

    def __init__(self, server, size, scenario, *extra, hosts=1):
        self.ranks = [
            server.start(str(rank), str(size), f"127.0.0.{1 + rank % hosts}", scenario, *extra)
            for rank in range(size)
        ]
        self.facts = [{} for _rank in range(size)]
        self.addresses = [self.hear(rank, "address") for rank in range(size)]

    def begin(self):
        for rank in range(len(self.ranks)):
            self.tell(rank, json.dumps(self.addresses))

    def hear(self, rank, fact):
        line = self.ranks[rank].stdout.readline()
        assert fact in line, f"rank {rank} said {line!r}"
        self.facts[rank] = json.loads(line) | self.facts[rank]
        return self.facts[rank][fact]

    def tell(self, rank, text):
        self.ranks[rank].stdin.write(text + "\n")
        self.ranks[rank].stdin.flush()

    def finish(self):
        """Return everything each rank has said, as one dict per rank; none may hang or leak."""
        limit = threading.Timer(DEADLINE_S, self.kill)
        limit.start()
        for process, facts in zip(self.ranks, self.facts, strict=True):
            for line in process.stdout:
                facts.update(json.loads(line) | facts)
            if process.wait() == 0:
                assert facts["left"] == 0, "sockets are left open"
                assert facts["threads"] == 1, "a thread is left"
        assert limit.is_alive(), "the ranks hung"
        limit.cancel()
        limit.join()
        return self.facts

    def kill(self):
        for process in self.ranks:
            process.kill()


@contextmanager
def ring_of(server, size, scenario, *extra, hosts=1):
    """Let so many ranks of a fork server play a scenario; none is left in the end.

    They have the addresses of so many hosts in turns.
    """
    world = Ring(server, size, scenario, *extra, hosts=hosts)
    try:
        yield world
    finally:
        world.kill()
        for process in world.ranks:
            process.wait(60)
            process.stdin.close()
            process.stdout.close()


@pytest.fixture(scope="module")
def fork_server():
    """The process that all ranks of this module are forked from."""
    with closing(ForkServer("ring_rank")) as server:
        yield server


@pytest.fixture
def ring(fork_server):
    """Let ranks play a scenario."""
    return functools.partial(ring_of, fork_server)


@pytest.mark.parametrize("hosts", [1, 2, 4])
def test_a_killed_rank_is_named_at_once_by_all_others(ring, hosts):
    with ring(4, "reduce_for_ever", hosts=hosts) as world:
        world.begin()
        for rank in range(4):
            world.hear(rank, "running")
        killed_at, watch = time.monotonic(), Stopwatch()
        world.ranks[2].kill()
        facts = world.finish()
    survivors = [facts[rank] for rank in (0, 1, 3)]
    delays_s = [fact["at"] - killed_at for fact in survivors]
    print(f"seconds from SIGKILL to PeerFailed: {[round(delay, 3) for delay in delays_s]}")
    assert [fact["raised"] for fact in survivors] == ["PeerFailed"] * 3
    for fact in survivors:
        assert_tells(fact["text"], "rank 2 closed", "all_reduce")
    watch.assert_less(1.0, "to know of the end", took_s=max(delays_s))


def test_a_rank_that_does_not_come_is_named_with_the_deadline(ring):
    with ring(2, "come_late") as world:
        world.begin()
        assert world.hear(0, "raised") == "CollectiveTimeout"
        world.tell(1, "go on")
        facts = world.finish()
    assert facts[0]["later"] == "CollectiveTimeout"
    assert "waited 0.5 s for rank 1 in all_reduce(float64[1000], sum) #2" in facts[0]["text"]


def test_a_rank_that_does_not_come_is_named_on_all_hosts(ring):
    with ring(4, "come_late", hosts=2) as world:
        world.begin()
        for rank in (0, 2, 3):
            assert world.hear(rank, "raised") in ("CollectiveTimeout", "PeerFailed")
        world.tell(1, "go on")
        facts = world.finish()
    for rank in (0, 2, 3):
        assert "waited 0.5 s for rank 1 in all_reduce(float64[1000], sum) #2" in facts[rank]["text"]


@pytest.mark.parametrize(
    "victim", only([2], [1, 2, 3]), ids=["late member", "waiting leader", "late leader"]
)
def test_who_dies_while_hosts_wait_for_each_other_is_named_by_all(ring, victim):
    late = 3 if victim == 3 else 1
    with ring(4, f"wait_for_rank_{late}", hosts=2) as world:
        world.begin()
        for rank in range(4):
            world.hear(rank, "running")
        let_pass(0.3)  # there is no event for "now they wait"
        world.ranks[victim].kill()
        if victim != late:
            world.tell(late, "go on")
        facts = world.finish()
    # What a waiting leader has sent counts: the other host may be through when it dies.
    through = {rank for rank in (1, 3) if victim == 2 and "done" in facts[rank]}
    for rank in {0, 1, 2, 3} - {victim} - through:
        assert facts[rank]["raised"] == "PeerFailed", facts
        assert_tells(facts[rank]["text"], f"rank {victim} closed", "all_reduce")


def test_hosts_in_different_calls_find_out(ring):
    with ring(4, "all_of_a_host_differ", hosts=2) as world:
        world.begin()
        facts = world.finish()
    assert [fact["raised"] for fact in facts] == ["CollectiveMismatch"] * 4, facts
    for fact in facts:
        assert {"all_reduce", "all_to_all"} <= set(re.findall(r"all_\w+", fact["text"]))


ODD = ["operation", "reduction", "shape", "dtype", "big", "extra", "root", "message"]


@pytest.mark.parametrize(
    ("odd", "hosts"),
    [*((odd, hosts) for odd in ODD for hosts in (1, 2)), ("big", 4), ("root", 4)],
)
def test_a_mismatch_names_both_calls_on_every_rank(ring, odd, hosts):
    with ring(4, "mismatch", odd, hosts=hosts) as world:
        world.begin()
        facts = world.finish()
    assert [fact["raised"] for fact in facts] == ["CollectiveMismatch"] * 4, facts
    for fact in facts:
        assert "rank 1 called" in fact["text"], "the odd rank is named"
        assert fact["later"] == "CollectiveMismatch"


def test_strangers_at_the_door_disturb_nobody(ring):
    with ring(3, "wait_for_rank_1") as world:
        strangers = []
        for address in world.addresses:
            host, port = address.split(":")
            for words in (b"", b"GET / HTTP/1.1\r\n\r\n" * 9, os.urandom(52), b"JDH1"):
                stranger = socket.create_connection((host, int(port)), timeout=60)
                stranger.sendall(words)
                strangers.append(stranger)
        watch = Stopwatch()
        world.begin()
        for rank in range(3):
            world.hear(rank, "running")
        for stranger in strangers:
            with suppress(ConnectionResetError):
                assert stranger.recv(1) == b"", "a stranger was answered"
            stranger.close()
        dropped = watch.spell()
        world.tell(1, "go on")
        assert all(facts.get("done") for facts in world.finish())
    dropped.assert_less(4.0, "to drop strangers")


def test_a_rank_with_the_wrong_key_is_kept_out():
    listeners = [bind_listener("127.0.0.1") for _rank in range(2)]
    peers = [address_of(listener) for listener in listeners]
    honest, impostor = (
        HostCommunicator(group, RingTransport(group, listener, peers, key))
        for group, listener, key in zip(
            (Group(0, 2, 3), Group(1, 2, 3)), listeners, (b"the key", b"guessed"), strict=True
        )
    )
    honest.timeout_s = impostor.timeout_s = 30.0
    with (
        closing(honest),
        closing(impostor),
        pytest.raises(PeerFailed, match="the key"),
    ):
        impostor.send([1.0], 0)


def test_ctrl_c_ends_a_wait_at_once_and_the_others_learn_it(ring):
    with ring(3, "wait_for_rank_1") as world:
        world.begin()
        for rank in range(3):
            world.hear(rank, "running")
        let_pass(0.2)  # there is no event for "now it waits in poll"
        interrupted_at, watch = time.monotonic(), Stopwatch()
        world.ranks[0].send_signal(signal.SIGINT)
        assert world.hear(2, "raised") == "PeerFailed"
        world.tell(1, "go on")
        facts = world.finish()
    assert facts[0]["raised"] == "KeyboardInterrupt"
    watch.assert_less(0.5, "the interrupt", took_s=facts[0]["at"] - interrupted_at)
    assert facts[0]["later"] == "CommunicatorError"
    assert facts[1]["raised"] == "PeerFailed"
    assert_tells(facts[1]["text"], "was interrupted", "all_reduce")


def test_an_abort_wakes_the_waiting_rank_with_the_true_cause(ring):
    with ring(3, "abort_while_waiting") as world:
        world.begin()
        assert world.hear(0, "raised") == "PeerFailed"
        world.tell(1, "go on")
        facts = world.finish()
    assert facts[0]["text"] == "rank 1 raised ValueError"
    assert facts[0]["later"] == "PeerFailed"
    assert facts[2]["raised"] == "PeerFailed"


def test_a_cell_on_some_ranks_may_send_but_not_reduce(ring):
    with ring(3, "some_ranks_only") as world:
        world.begin()
        facts = world.finish()
    assert all(fact["done"] for fact in facts)
    assert_tells(facts[0]["refused"], "ranks 0,2 only", "all_reduce", "3 ranks")
