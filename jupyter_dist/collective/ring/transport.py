"""The transport of the ring: one flow of bytes for each operation, until one breaks."""

import contextlib
import hashlib
import hmac
import re
import socket
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from jupyter_dist.collective.broken import Breakage, Broken
from jupyter_dist.collective.calls.call import Call, Message, OnWaiting
from jupyter_dist.collective.group import Group
from jupyter_dist.collective.ring import algorithms, hierarchy
from jupyter_dist.collective.ring.addresses import address_of, bind_listener
from jupyter_dist.collective.ring.connections import Addresses, Connections, HostOf
from jupyter_dist.collective.ring.flow import Flow, as_bytes
from jupyter_dist.collective.ring.handshake import Membership
from jupyter_dist.collective.ring.heading import Heading
from jupyter_dist.collective.ring.hierarchy import Hosts, Layout, Levels, Members, group_by_host
from jupyter_dist.collective.ring.memory import algorithms as memory_algorithms
from jupyter_dist.collective.ring.memory.room import Room
from jupyter_dist.collective.ring.memory.rounds import Rounds
from jupyter_dist.collective.ring.memory.sharing import share_room
from jupyter_dist.collective.ring.stopped import Stopped
from jupyter_dist.descriptors import defer_interrupts
from jupyter_dist.model.hosts.addresses import split_address
from jupyter_dist.model.ranks.held_time import HeldTime
from jupyter_dist.model.ranks.records import SYMMETRIC
from jupyter_dist.model.ranks.source_files import PACKAGE_DIR

_OURS = (PACKAGE_DIR, contextlib.__file__)


class RingTransport:
    """Moves numpy arrays between ranks; the communicator has checked them, and numbered the call.

    Collectives of ranks on one host go through memory that they share, those of several through
    it and, from one rank of each host to another, over TCP; everything else goes over TCP.

    Arrays are C-contiguous, and flat unless a shape is given. Each method but abort is called from
    one thread at a time, and raises Broken when it cannot go on; then only `leave` and `close`
    follow.

    `listener` is bound and listening already (see `bind_listener`) and belongs to the transport
    from now on; `peers` gives the address of each as `host:port`; `key` is the secret that they
    share; `host_of` names the host of a rank of the cluster, for people. Nothing is connected, nor
    looked up, before it is needed.
    """

    kind = "ring"

    def __init__(
        self,
        group: Group,
        listener: socket.socket,
        peers: Addresses,
        key: bytes,
        *,
        host_of: HostOf | None = None,
        hosts: Hosts | None = None,
    ) -> None:
        """Take the listener over; without `hosts` the addresses tell which ranks are on one."""
        self._me = Membership(group.rank, group.size, group.generation, key)
        self._host = split_address(peers[group.rank])[0]
        if group.size == 1:
            listener.close()
        door = None if group.size == 1 else listener
        self._host_of = host_of
        self._links = Connections(door, self._me, peers, group.members, host_of)
        self._next_listener: socket.socket | None = None
        hosts = hosts or group_by_host(peers[each] for each in range(group.size))
        self._layout = Layout(hosts, group.rank)
        self._may_share = self._layout.most > 1
        """Until the first collective, in which the ranks try it."""
        self._does_share = False
        self._room: Room | None = None
        self._rounds: Rounds | None = None
        self._timeout_s = 60.0
        self._site = ""
        self._warned: set[tuple[str, str, str]] = set()
        self.on_waiting: OnWaiting | None = None
        """Called now and then while data of these ranks of the cluster has not come; or never."""

    def enter(self, timeout_s: float, site: str) -> None:
        """Tell how long the operation that comes next may take, and where it was called."""
        self._timeout_s = timeout_s
        self._site = site

    def hold_with(self, held: HeldTime) -> None:
        """Let deadlines stand still while `held` does; also those of what is split off."""
        self._links.held = held

    def run(self, call: Call, *given: Any) -> None:
        """Carry out a collective on these arrays; see `algorithms` for what each one takes."""
        heading = Heading(self._links, call, self._site)
        self._guard(call, lambda: self._collect(heading, given))
        if heading.other_site and call.operation in SYMMETRIC:
            self._warn_of(call, heading.other_site)

    def _collect(self, heading: Heading, given: Sequence[Any]) -> None:
        operation = heading.call.operation
        move = partial(self._move, heading)
        levels = Levels(self._layout, move)
        if self._may_share or self._does_share:
            levels.greet()
        if self._may_share:
            self._may_share, heading.is_judged_later = False, True
            self._share(levels, move)
            heading.is_judged_later = False
            levels.be_greeted()
        if not self._does_share:
            move(self._layout.everybody, getattr(algorithms, operation), *given)
            return
        if self._rounds is not None:
            self._rounds.begin(heading, self._timeout_s, self.on_waiting)
        if len(self._layout.hosts) == 1:
            getattr(memory_algorithms, operation)(self._rounds, *given)
        else:
            levels.rounds = self._rounds
            getattr(hierarchy, operation)(levels, *given)
            levels.be_greeted()

    def _share(self, levels: Levels, move: Callable[..., None]) -> None:
        """Let the ranks of each host share memory, if those of all hosts can."""
        here = self._layout.hosts[self._layout.here]
        does_share = True
        if len(here) > 1:
            me = Membership(here.index(self._me.rank), len(here), self._me.generation, self._me.key)
            move_here = partial(move, {rank: (rank,) for rank in here})
            does_share = share_room(me, move_here, self._keep_room)
        if len(self._layout.hosts) > 1:
            does_share = levels.agree(does_share=does_share)
        if not does_share:
            self._close_room()
        elif self._room is not None:
            self._rounds = Rounds(self._room, self._links, here)
        self._does_share = does_share

    def _keep_room(self, room: Room) -> None:
        self._room = room

    def _close_room(self) -> None:
        with defer_interrupts():
            room, self._room, self._rounds = self._room, None, None
            if room is not None:
                room.close()

    def exchange(self, call: Call, sent: Sequence[Message], received: Sequence[Message]) -> None:
        """Send and receive all of these at once, none of them to or from this rank itself."""

        def algorithm(flow: Flow) -> None:
            for message in sent:
                data = as_bytes(message.array)
                flow.open(message.peer, data.nbytes, message.call)
                flow.send(message.peer, data)
            for message in received:
                flow.receive(message.peer, as_bytes(message.array), message.call)
            flow.run()

        heading = Heading(self._links, call, self._site)
        self._guard(call, lambda: self._move(heading, self._layout.everybody, algorithm))

    def _move(
        self, heading: Heading, members: Members, algorithm: Callable[..., None], *given: Any
    ) -> None:
        """Carry out something over connections."""
        ahead = None if self._rounds is None else self._rounds.find_header_ahead
        flow = Flow(self._links, heading, self._timeout_s, self.on_waiting, members, ahead)
        algorithm(flow, *given)

    def _guard(self, call: Call, act: Callable[[], None]) -> None:
        """Do something; raise Broken for what stops it."""
        try:
            with np.errstate(invalid="ignore"):  # ml_dtypes tells of a NaN in a minimum
                act()
                return
        except Stopped as stop:
            # Its frames would keep shared memory mapped for as long as anybody has the error.
            found = Stopped(stop.breakage, stop.certainty)
        raise Broken(self._settle(found, call))

    def prepare_split(self) -> str:
        """Open the listener of the next communicator; give its address."""
        self.forget_split()
        listener = bind_listener(self._host)
        address = address_of(listener)  # before an abort can close it
        self._next_listener = listener
        return address

    def split(self, group: Group, told: Sequence[str], number: int) -> "RingTransport":
        """Make a ring of these members, with connections and a key of its own."""
        listener, self._next_listener = self._next_listener, None
        assert listener is not None
        secret = f"{group.label} {number}".encode()
        key = hmac.new(self._me.key, secret, hashlib.sha256).digest()
        ring = RingTransport(group, listener, told, key, host_of=self._host_of)
        ring.hold_with(self._links.held)
        return ring

    def abort(self, breakage: Breakage) -> None:
        """Make the running operation, if any, raise Broken at once."""
        self._links.abort(breakage)

    def leave(self, breakage: Breakage) -> None:
        """Let peers that wait for this rank know why it is gone."""
        self.forget_split()
        self._leave_room()
        self._links.leave(breakage)

    def close(self) -> None:
        """Close every socket and end the acceptor's thread; calling it again changes nothing."""
        self._links.close()
        self.forget_split()
        self._close_room()

    def forget_split(self) -> None:
        """Let nobody wait at the door of a communicator that will not come."""
        if self._next_listener is not None:
            self._next_listener.close()
            self._next_listener = None

    def _warn_of(self, call: Call, other_site: str) -> None:
        """Warn once that equal calls stand on different lines: most likely their order differs.

        All ranks write the same words, and only those at the first of both lines write them: a
        view shows that once, however many ranks there are.
        """
        lines = (self._site, other_site)
        key = (call.operation, *lines)
        if not all(lines) or self._site != min(lines, key=_natural) or key in self._warned:
            return
        self._warned.add(key)
        what = "their results are mixed up"
        if call.operation == "barrier":
            what = "this barrier may end with another one"
        _warn_user(
            f"{call.operation} was called at {lines[0]} on some ranks and at {lines[1]} on "
            f"others. If these are two different calls, {what}: %%spmd --check makes that an error."
        )

    def _leave_room(self) -> None:
        if self._room is not None:
            self._room.leave()

    def _settle(self, stop: Stopped, call: Call) -> Breakage:
        self._leave_room()
        try:
            return self._links.settle(stop)
        except KeyboardInterrupt:
            rank = self._links.world_ranks[self._me.rank]
            self._links.leave(Breakage("left", rank, f"was interrupted during {call}"))
            raise


def _natural(site: str) -> list[int | str]:
    """Return a key by which `In[4]:9` comes before `In[4]:10`."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", site)]


def _warn_user(text: str) -> None:
    """Raise a RuntimeWarning at the innermost line that is not in this package."""
    frame = sys._getframe(1)  # noqa: SLF001  (inspect's is slower)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    # Without a registry: how often this is said is for the caller to decide.
    warnings.warn_explicit(text, RuntimeWarning, frame.f_code.co_filename, frame.f_lineno)
