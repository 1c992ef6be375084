"""The transport of the ring: one flow of bytes for each operation, until one breaks."""

import contextlib
import hashlib
import hmac
import re
import socket
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec

import numpy as np

from jupyter_dist.collective.broken import Breakage, Broken
from jupyter_dist.collective.calls.call import Call, Message, OnWaiting
from jupyter_dist.collective.group import Group
from jupyter_dist.collective.ring import algorithms
from jupyter_dist.collective.ring.addresses import address_of, bind_listener
from jupyter_dist.collective.ring.connections import Connections
from jupyter_dist.collective.ring.flow import Flow, as_bytes
from jupyter_dist.collective.ring.handshake import Membership
from jupyter_dist.collective.ring.stopped import Stopped
from jupyter_dist.model.hosts.addresses import split_address
from jupyter_dist.model.ranks.records import SYMMETRIC
from jupyter_dist.model.ranks.source_files import PACKAGE_DIR

_OURS = (PACKAGE_DIR, contextlib.__file__)
_Given = ParamSpec("_Given")


class RingTransport:
    """Moves numpy arrays over TCP; the communicator has checked them, and numbered the call.

    Arrays are C-contiguous, and flat unless a shape is given. Each method but abort is called from
    one thread at a time, and raises Broken when it cannot go on; then only `leave` and `close`
    follow.

    `listener` is bound and listening already (see `bind_listener`) and belongs to the transport
    from now on; `peers` are the ranks' addresses as `host:port`, in rank order; `key` is the secret
    that they share; `hosts` are those of the ranks, for people. Nothing is connected before it is
    needed.
    """

    kind = "ring"

    def __init__(
        self,
        group: Group,
        listener: socket.socket,
        peers: Sequence[str],
        key: bytes,
        hosts: Sequence[str] = (),
    ) -> None:
        self._me = Membership(group.rank, group.size, group.generation, key)
        self._host = split_address(peers[group.rank])[0]
        if group.size == 1:
            listener.close()
        door = None if group.size == 1 else listener
        self._hosts = dict(zip(group.members, hosts, strict=False))
        self._links = Connections(door, self._me, peers, group.members, hosts)
        self._next_listener: socket.socket | None = None
        self._timeout_s = 60.0
        self._site = ""
        self._warned: set[tuple[str, str, str]] = set()
        self.on_waiting: OnWaiting | None = None
        """Called now and then while data of these ranks of the cluster has not come; or never."""

    def enter(self, timeout_s: float, site: str) -> None:
        """Tell how long the operation that comes next may take, and where it was called."""
        self._timeout_s = timeout_s
        self._site = site

    def run(
        self,
        call: Call,
        algorithm: Callable[Concatenate[Flow, _Given], None],
        *given: _Given.args,
        **named: _Given.kwargs,
    ) -> None:
        """Carry out one of `algorithms`, or what is like them, on these arrays."""
        flow = Flow(self._links, call, self._timeout_s, self._site, self.on_waiting)
        try:
            # numpy says nothing of a NaN in a minimum, ml_dtypes would.
            with np.errstate(invalid="ignore"):
                algorithm(flow, *given, **named)
        except Stopped as stop:
            raise Broken(self._settle(stop, call)) from None
        if flow.other_site and call.operation in SYMMETRIC:
            self._warn_of(call, flow.other_site)

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

        self.run(call, algorithm)

    def barrier(self, call: Call) -> None:
        """Wait until every rank is here."""
        # Without data only a direct exchange makes everybody wait for everybody.
        size = self._me.size
        steps = np.zeros(size if size > algorithms.DIRECT_RANKS else 0, np.uint8)
        self.run(call, algorithms.all_reduce, steps, steps, np.add)

    def prepare_split(self) -> str:
        """Open the listener of the next communicator; give its address."""
        self._forget_split()
        self._next_listener = bind_listener(self._host)
        return address_of(self._next_listener)

    def split(self, group: Group, told: Sequence[str], number: int) -> "RingTransport":
        """Make a ring of these members, with connections and a key of its own."""
        listener, self._next_listener = self._next_listener, None
        assert listener is not None
        secret = f"{group.label} {number}".encode()
        key = hmac.new(self._me.key, secret, hashlib.sha256).digest()
        hosts = [self._hosts[rank] for rank in group.members] if self._hosts else ()
        return RingTransport(group, listener, told, key, hosts)

    def abort(self, breakage: Breakage) -> None:
        """Make the running operation, if any, raise Broken at once."""
        self._links.abort(breakage)

    def leave(self, breakage: Breakage) -> None:
        """Let peers that wait for this rank know why it is gone."""
        self._forget_split()
        self._links.leave(breakage)

    def close(self) -> None:
        """Close every socket and end the acceptor's thread; calling it again changes nothing."""
        self._links.close()
        self._forget_split()

    def _forget_split(self) -> None:
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

    def _settle(self, stop: Stopped, call: Call) -> Breakage:
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
