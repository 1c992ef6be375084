"""What ranks and the coordinator say arrives once and in order, whatever becomes of the relay."""

import os
import socket

import psutil
import pytest

from jupyter_dist.control.frames import receive_frames, send_frames
from jupyter_dist.control.relay.doors import open_doors
from jupyter_dist.control.relay.envelope import Letter, new_relay, pack, unpack
from jupyter_dist.errors import MalformedMessage
from jupyter_dist.protocol.codec import VERSION, encode
from jupyter_dist.protocol.messages import Leave, ObjectFetched, ObjectsStored, Ready, Regroup

RANKS = ("0", "1", "2.4")


def told(rank):
    """All that a rank has been told."""
    return [message for message, _ in rank.receive()]


def ready(rank, generation):
    return Ready(rank, generation)


def test_an_envelope_gives_back_its_letters_with_their_buffers():
    letters = [
        Letter([b"0"], [b"a"], b"x", 2),
        Letter([b"1", b"2"], [b"b", b"c"], b"y"),
        Letter([], [], b"", 1),
    ]
    head_1, head_2, *buffers = pack(letters, [b"1", b"2", b"3"])
    assert list(unpack([head_1, head_2], buffers)) == [
        (letters[0], [b"1", b"2"]),
        (letters[1], []),
        (letters[2], [b"3"]),
    ]


@pytest.mark.parametrize(
    "head",
    [
        [],
        [VERSION],
        [VERSION, b"\xc1"],
        [VERSION, b"\x91\x90"],
        encode(Leave()),
        pack([Letter([b"0", b"1"], [b"a"], b"x")]),
        pack([Letter([b"0"], [b"a"], b"x", -1)]),
    ],
)
def test_another_message_is_no_envelope(head):
    with pytest.raises(MalformedMessage):
        list(unpack(head, []))


def test_ranks_hear_and_are_heard_in_order_with_their_buffers(host):
    ranks = {name: host.rank(name) for name in RANKS}
    for generation in range(3):
        for number, rank in enumerate(ranks.values()):
            rank.send(ready(number, generation))
    ranks["1"].send(ObjectFetched(1, "it"), [b"one", b"two"])
    heard = host.hear(10, *ranks.values())
    for number, name in enumerate(RANKS):
        own = [message for identity, message in heard if identity == name]
        assert own[:3] == [ready(number, generation) for generation in range(3)]
    host.router.send_to_all([b"0", b"1", b"2.4"], Leave())
    host.router.send(b"1", Regroup(2, 1))
    found = {name: [] for name in RANKS}

    def all_have_heard():
        for name, rank in ranks.items():
            found[name] += told(rank)
        return sum(map(len, found.values())) == 4

    host.move_until(all_have_heard)
    assert found == {"0": [Leave()], "1": [Leave(), Regroup(2, 1)], "2.4": [Leave()]}


def test_what_is_there_at_the_same_time_travels_in_one_envelope(host):
    ranks = [host.rank(name) for name in RANKS]
    for number, rank in enumerate(ranks):
        rank.send(ready(number, 1))
    host.hear(3, *ranks)
    for number, rank in enumerate(ranks):
        rank.send(ready(number, 2))
    assert host.relay._ranks.poll(5000)
    letters = []
    while len(letters) < 3:
        host.relay.carry(host.relay.wait(0.1))
        if host.router.pollable.poll(100):
            (_, *head), buffers = receive_frames(host.router.pollable, small=3)
            letters += [letter for letter, _ in unpack(head, buffers)]
    assert [letter.names for letter in letters] == [[name.encode()] for name in RANKS]


def test_a_relay_speaks_only_for_ranks_that_it_was_given(host):
    own = host.rank("0")
    host.router.give_to_relay(new_relay(), ["1"])  # that of another host
    own.send(ready(0, 1))
    host.hear(1, own)
    for stranger in (b"1", b"2"):
        letter = Letter([stranger], [VERSION], encode(ready(int(stranger), 1))[1])
        send_frames(host.relay._uplink, pack([letter]))
    own.send(ready(0, 2))
    assert host.hear(1, own) == [("0", ready(0, 2))]
    assert not host.heard


def test_a_rank_whose_relay_has_ended_speaks_for_itself_and_nothing_is_lost_or_doubled(host):
    rank = host.rank("0")
    rank.send(ready(0, 1))
    host.hear(1, rank)
    rank.send(ready(0, 2))  # read by a relay that ends, or not
    host.relay.wait(1)
    host.end_relay()
    host.router.send(b"0", Regroup(1, 0))  # to a relay that is not there
    rank.send(ready(0, 3))
    assert host.hear(2, rank) == [("0", ready(0, 2)), ("0", ready(0, 3))]
    found = []
    host.move_until(lambda: found.extend(told(rank)) or found, rank)
    assert found == [Regroup(1, 0)]


def test_a_rank_leaves_a_relay_that_is_silent_and_what_that_still_brings_is_old(host, monkeypatch):
    rank = host.rank("0")
    rank.send(ready(0, 1))
    host.hear(1, rank)
    rank.send(ready(0, 2))
    assert host.relay._ranks.poll(5000)  # it lies in a relay that does not move
    stopped, host.relay = host.relay, None
    assert rank.silence_s() == 0
    monkeypatch.setattr(rank, "_heard_s", rank._heard_s - rank.silent_s)
    assert host.hear(1, rank) == [("0", ready(0, 2))]
    host.relay = stopped
    rank.send(ObjectsStored(0, "it"))
    assert host.hear(1, rank) == [("0", ObjectsStored(0, "it"))]
    assert not host.heard


def test_a_rank_that_finds_a_relay_stopped_before_it_has_said_hello_goes_without_it(host):
    host.path += "-that-accepts-nothing"
    doors = open_doors(host.path)
    rank = host.rank("0")
    rank.send(ready(0, 1))
    assert host.hear(1, rank) == [("0", ready(0, 1))]
    doors.close()


def test_a_rank_whose_relay_has_ended_before_it_connects_goes_without_it(host):
    host.path += "-that-is-not-there"
    rank = host.rank("0")
    rank.send(ready(0, 1))
    assert host.hear(1, rank) == [("0", ready(0, 1))]


def test_ranks_know_that_the_relay_has_lost_its_connection_and_say_again_what_was_lost(host):
    rank = host.rank("0")
    rank.send(ready(0, 1))
    host.hear(1, rank)
    assert rank.silence_s() == 0
    assert not told(rank)
    cut_connections_to(host.address)
    rank.send(ready(0, 2))
    host.router.send(b"0", Regroup(1, 0))
    found = []
    host.move_until(lambda: found.extend(told(rank)) or found, rank)
    assert found == [Regroup(1, 0)]
    assert host.hear(1, rank) == [("0", ready(0, 2))]
    assert not host.heard


def test_a_rank_counts_from_the_cut_of_its_relay_for_how_long_it_is_out_of_reach(host):
    host.move_until(lambda: not host.relay._is_cut)
    rank = host.rank("0")
    rank.send(ready(0, 1))
    host.hear(1, rank)
    host.router.close()
    host.move = lambda: host.relay.carry(host.relay.wait(0))
    host.move_until(lambda: not told(rank) and rank.silence_s() > 0)
    late = host.rank("1")
    late.send(ready(1, 1))
    host.move_until(lambda: not told(late) and late.silence_s() and late._connections)


def cut_connections_to(address):
    """Shut down each connection of this process that was made to this address."""
    port = int(address.rpartition(":")[2])
    for each in psutil.Process().net_connections("tcp"):
        if each.raddr and each.raddr.port == port:
            with socket.socket(fileno=os.dup(each.fd)) as connection:
                connection.shutdown(socket.SHUT_RDWR)
