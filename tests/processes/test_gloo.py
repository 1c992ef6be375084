"""Gloo between real processes: what it computes, and what each rank says when one fails."""

import signal
import socket
import sys
import threading
import time
from contextlib import ExitStack, closing, contextmanager

import pytest

from jupyter_dist.collective.gloo.pairs import Pairs, open_sockets
from jupyter_dist.collective.gloo.transport import GlooTransport
from jupyter_dist.collective.group import Group
from jupyter_dist.collective.host import HostCommunicator
from jupyter_dist.errors import CollectiveTimeout, CommunicatorError, PeerFailed, UsageError
from tests.matrix import only
from tests.patience import Stopwatch, let_pass

from .conftest import SharedCluster
from .fork_server import ForkServer
from .leftovers import wait_until
from .ranks_folder import Folder
from .results import values
from .test_ring_communicator import ring_of

WITHOUT_TORCH = "torch is no requirement of the tests: its wheel on PyPI brings gigabytes of CUDA"


@pytest.fixture(scope="module")
def fork_server():
    """The process that all ranks of this module are forked from."""
    pytest.importorskip("torch", reason=WITHOUT_TORCH)
    # What torch opens once and for all is not a leak of a rank's.
    with closing(ForkServer("gloo_rank", "torch.distributed")) as server:
        yield server


@pytest.fixture
def gloo(fork_server, tmp_path):
    """Let ranks play a scenario."""

    @contextmanager
    def start(size, scenario, *extra):
        folder = tmp_path / "values"
        folder.mkdir()
        with ring_of(fork_server, size, scenario, str(folder), *extra) as world:
            world.begin()
            yield world

    return start


def hear_all(world, fact):
    for rank in range(len(world.ranks)):
        world.hear(rank, fact)


@pytest.mark.parametrize("size", only([3], [1, 2, 3, 4]))
def test_every_operation_agrees_with_numpy(gloo, size):
    with gloo(size, "everything") as world:
        assert all(facts.get("done") for facts in world.finish())


def test_messages_arrive_in_any_order(gloo):
    with gloo(3, "messages_in_any_order") as world:
        assert all(facts.get("done") for facts in world.finish())


def test_communicators_are_split_off(gloo):
    with gloo(4, "halves") as world:
        assert all(facts.get("done") for facts in world.finish())


def test_torch_distributed_is_left_to_the_user(gloo, tmp_path):
    with gloo(2, "beside_torch_distributed", str(tmp_path)) as world:
        assert all(facts.get("done") for facts in world.finish())


@pytest.mark.slow
def test_a_killed_rank_is_named_by_all_others(gloo):
    with gloo(4, "reduce_for_ever") as world:
        hear_all(world, "running")
        killed_at, watch = time.monotonic(), Stopwatch()
        world.ranks[2].kill()
        facts = world.finish()
    survivors = [facts[rank] for rank in (0, 1, 3)]
    delays_s = [fact["at"] - killed_at for fact in survivors]
    print(f"seconds from SIGKILL to PeerFailed: {[round(delay, 3) for delay in delays_s]}")
    assert [fact["raised"] for fact in survivors] == ["PeerFailed"] * 3
    for fact in survivors:
        assert "rank 2 closed its connection during all_reduce" in fact["text"]
    watch.assert_less(1.5, "to know of the end", took_s=max(delays_s))
    assert [fact["later"] for fact in survivors] == ["PeerFailed"] * 3


def test_a_rank_that_does_not_come_is_waited_for_until_the_deadline(gloo):
    with gloo(2, "come_late") as world:
        assert world.hear(0, "raised") == "CollectiveTimeout"
        world.tell(1, "go on")
        facts = world.finish()
    text = "waited 0.5 s for the other ranks in all_reduce(float64[1000], sum) #2"
    assert text in facts[0]["text"]
    assert facts[0]["later"] == "CollectiveTimeout"


@pytest.mark.slow
def test_errors_of_a_split_name_ranks_of_the_cluster(gloo):
    with gloo(4, "upper_half_is_late") as world:
        assert world.hear(3, "raised") == "CollectiveTimeout"
        world.tell(2, "go on")
        facts = world.finish()
    text = "rank 3 waited 0.5 s for the other ranks in all_reduce("
    assert facts[3]["text"].startswith(text)
    assert facts[2]["raised"] == "PeerFailed"
    assert facts[2]["text"].startswith(text)


@pytest.mark.parametrize(
    "scenario", only(["receive_from_rank_1"], ["wait_for_rank_1", "receive_from_rank_1"])
)
def test_ctrl_c_ends_a_wait_at_once_and_the_others_learn_it(gloo, scenario):
    with gloo(3, scenario) as world:
        hear_all(world, "running")
        let_pass(0.2)  # there is no event for "now it waits in gloo"
        interrupted_at, watch = time.monotonic(), Stopwatch()
        world.ranks[0].send_signal(signal.SIGINT)
        assert world.hear(0, "raised") == "KeyboardInterrupt"
        world.tell(1, "go on")
        facts = world.finish()
    watch.assert_less(0.5, "the interrupt", took_s=facts[0]["at"] - interrupted_at)
    assert facts[0]["later"] == "CommunicatorError"
    if scenario == "wait_for_rank_1":
        for rank in (1, 2):
            assert facts[rank]["raised"] == "PeerFailed"
            assert "was interrupted during all_reduce" in facts[rank]["text"]


@pytest.mark.parametrize(
    "scenario", only(["abort_while_receiving"], ["abort_while_waiting", "abort_while_receiving"])
)
def test_an_abort_wakes_the_waiting_rank_with_the_true_cause(gloo, scenario):
    watch = Stopwatch()
    with gloo(3, scenario) as world:
        assert world.hear(2, "raised") == "PeerFailed"
        world.tell(1, "go on")
        facts = world.finish()
    assert facts[0]["raised"] == "PeerFailed"
    assert facts[0]["text"] == "rank 1 raised ValueError"
    assert facts[0]["later"] == "PeerFailed"
    assert facts[2]["raised"] == "PeerFailed"
    assert facts[2]["text"] == "rank 1 raised ValueError", "told over the control channel"
    if "aborted_at" in facts[0]:
        took_s = facts[0]["at"] - facts[0]["aborted_at"]
        watch.assert_less(0.2, "the abort", took_s=took_s)


def test_a_cell_on_some_ranks_may_send_but_not_reduce(gloo):
    with gloo(3, "some_ranks_only") as world:
        facts = world.finish()
    assert all(fact["done"] for fact in facts)
    assert "this cell runs on ranks 0,2 only; all_reduce needs all 3 ranks" in facts[0]["refused"]


def test_members_that_do_not_come_are_waited_for_until_the_deadline(tmp_path):
    pytest.importorskip("torch", reason=WITHOUT_TORCH)
    before = open_sockets()
    watch = Stopwatch()
    with pytest.raises(CollectiveTimeout, match=r"not all other ranks have come.*firewall"):
        GlooTransport(Group(0, 2, 1), "127.0.0.1", Folder(tmp_path), timeout_s=0.5)
    watch.assert_less(20, "loading torch, and the wait,")
    names = {thread.name for thread in threading.enumerate()} - {"gloo"}
    wait_until(
        lambda: (
            open_sockets().items() <= before.items()
            and {t.name for t in threading.enumerate()} == names
        ),
        5,
        "sockets and the thread of gloo are gone",
    )


def test_an_address_that_is_not_of_this_host_is_told(tmp_path):
    pytest.importorskip("torch", reason=WITHOUT_TORCH)
    with pytest.raises(CommunicatorError, match="gloo could not be formed: "):
        GlooTransport(Group(0, 2, 1), "192.0.2.1", Folder(tmp_path), timeout_s=5)


def test_what_comes_to_look_ends_the_forming(tmp_path):
    pytest.importorskip("torch", reason=WITHOUT_TORCH)

    def look_around():
        raise PeerFailed(1, "raised")

    with pytest.raises(PeerFailed, match="rank 1 raised"):
        GlooTransport(Group(0, 2, 1), "127.0.0.1", Folder(tmp_path), 5.0, look_around)


def test_what_comes_to_look_ends_the_exchange_of_addresses(tmp_path, monkeypatch):
    forming = pytest.importorskip("jupyter_dist.collective.gloo.forming", reason=WITHOUT_TORCH)
    control = Folder(tmp_path)
    before, peers, has_formed, find = open_sockets(), [], threading.Event(), Pairs.find

    def form_peer():
        peer = forming.form(Group(1, 2, 1), "127.0.0.1", control, 30.0, lambda: None)
        peers.append(peer)

    def find_and_tell(*arguments):
        has_formed.set()
        return find(*arguments)

    def look_around():
        if has_formed.is_set():
            raise PeerFailed(1, "raised")

    monkeypatch.setattr(Pairs, "find", find_and_tell)
    thread = threading.Thread(target=form_peer)
    thread.start()
    watch = Stopwatch()
    with pytest.raises(PeerFailed, match="rank 1 raised"):
        GlooTransport(Group(0, 2, 1), "127.0.0.1", control, 30.0, look_around)
    watch.assert_less(10, "an exchange in which the peer never takes part")
    thread.join(10)
    peers.clear()
    # torch lets go of an unfinished group at its own deadline; others may close sockets meanwhile.
    wait_until(lambda: open_sockets().items() <= before.items(), 60, "the sockets of both are gone")


def test_without_torch_the_next_step_is_told(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.distributed", None)
    monkeypatch.delitem(sys.modules, "jupyter_dist.collective.gloo.forming", raising=False)
    with pytest.raises(UsageError, match=r"pip install torch.*--comm ring"):
        GlooTransport(Group(0, 2, 1), "127.0.0.1", Folder(tmp_path))


def test_one_rank_alone_needs_no_torch(tmp_path, monkeypatch):
    for name in ("torch", "torch.distributed"):
        monkeypatch.setitem(sys.modules, name, None)
    with closing(
        HostCommunicator(group := Group(0, 1, 1), GlooTransport(group, "", Folder("")))
    ) as comm:
        assert comm.all_reduce(3) == 3
        assert comm.all_gather([1.5]).tolist() == [[1.5]]
        comm.barrier()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Three ranks with gloo: each of them loads torch."""
    pytest.importorskip("torch", reason=WITHOUT_TORCH)
    shared = SharedCluster(
        tmp_path_factory.mktemp("three"), "localhost:3", comm="gloo", timeout_s=60.0
    )
    yield shared
    shared.close()


@pytest.fixture
def cluster(shared):
    """The cluster of this module; started again where a test has cost a rank."""
    if set(shared.cluster.status().ranks.values()) != {"idle"}:
        shared.close()
        shared.restart()
    return shared.cluster


def test_a_cluster_has_gloo_and_forms_it_anew_after_a_failure(cluster):
    assert values(cluster.run("comm")) == [
        f"<gloo communicator: rank {rank} of 3>" for rank in range(3)
    ]
    (before,) = set(values(cluster.run("comm.generation")))
    half = "half = comm.split(rank % 2)\nhalf.all_gather(rank).tolist()"
    assert values(cluster.run(half)) == ["[0, 2]", "[1]", "[0, 2]"]
    failed = cluster.run("if rank == 1:\n    raise LookupError('deep')\ncomm.all_reduce(1)")
    assert [rank.status for rank in failed] == ["peer_failed", "raised", "peer_failed"]
    assert "rank 1 raised LookupError" in str(failed[0].error)
    found = values(cluster.run("int(comm.all_reduce(1)), comm.generation"))
    assert found == [f"(3, {int(before) + 1})"] * 3


def test_checked_calls_that_differ_are_an_error_on_gloo_too(cluster):
    code = "import numpy as np\ncomm.check = True\ncomm.all_reduce(np.ones(2 + (rank == 1)))"
    result = cluster.run(code)
    for rank in result:
        assert "CollectiveMismatch: rank 1 called all_reduce(float64[3], sum)" in str(rank.error)


def test_a_killed_rank_of_a_cluster_is_named(cluster):
    result = cluster.run(
        "import os, signal\nif rank == 2:\n    os.kill(os.getpid(), 9)\ncomm.barrier()"
    )
    assert [rank.status for rank in result] == ["peer_failed", "peer_failed", "lost"]
    assert all("rank 2" in str(result[rank].error) for rank in (0, 1))


def connect(stack):
    """Connect two sockets of this process; the listener stays open too."""
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    near = stack.enter_context(socket.create_connection(listener.getsockname()))
    far = stack.enter_context(listener.accept()[0])
    far.settimeout(60)
    return near, far


def told_by(connection):
    host, port = connection.getsockname()
    return f"[{host}]:{port}".encode()


def test_only_connections_that_both_ends_have_told_are_shut_down():
    with ExitStack() as stack:
        earlier, _far = connect(stack)
        before = open_sockets().keys()
        ours, theirs = connect(stack)
        stranger, far = connect(stack)
        pairs = Pairs()
        stack.callback(pairs.close)
        found = pairs.find(before, 1000).split(b"\n")
        assert told_by(ours) in found
        assert told_by(earlier) not in found
        pairs.confirm({1: told_by(theirs)})
        host, port = theirs.getsockname()
        turned = (port % 256) * 256 + port // 256
        for written in (port, turned):
            assert pairs.rank_in(f"[pair.cc:553] closed by peer [{host}]:{written}. GLHF") == 1
        assert pairs.rank_in(f"closed by peer {told_by(far).decode()}. GLHF") == -1
        assert pairs.closed_by() == -1
        pairs.shut_down()
        assert pairs.closed_by() == 1
        assert theirs.recv(1) == b""
        stranger.sendall(b"x")
        assert far.recv(1) == b"x"
    assert not [each for each in (ours, theirs, stranger, far) if each.fileno() >= 0]


def test_addresses_without_room_are_left_out_as_whole_lines():
    with ExitStack() as stack:
        before = open_sockets().keys()
        connect(stack)
        connect(stack)
        pairs = Pairs()
        stack.callback(pairs.close)
        every = pairs.find(before, 1000)
        pairs.close()
        lines = every.splitlines(keepends=True)
        assert len(lines) == 4
        for limit, count in ((len(every), 4), (len(every) - 1, 3), (len(lines[0]), 1), (9, 0)):
            again = Pairs()
            stack.callback(again.close)
            assert again.find(before, limit) == b"".join(lines[:count])
            again.close()


def test_a_handle_that_is_closed_lets_the_connection_live():
    with ExitStack() as stack:
        before = open_sockets().keys()
        ours, theirs = connect(stack)
        pairs = Pairs()
        pairs.find(before, 1000)
        pairs.confirm({0: told_by(theirs)})
        pairs.close()
        ours.sendall(b"x")
        assert theirs.recv(1) == b"x"
