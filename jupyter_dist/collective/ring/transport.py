"""The transport of the ring: one flow of bytes for each operation, until one breaks."""

import hashlib
import hmac
import re
import socket
from collections.abc import Callable, Sequence

import numpy as np

from jupyter_dist.collective.breakage import Breakage, Broken
from jupyter_dist.collective.call import UFUNCS, Array, Call
from jupyter_dist.collective.group import Group
from jupyter_dist.collective.ring import algorithms
from jupyter_dist.collective.ring.addresses import address_of, bind_listener
from jupyter_dist.collective.ring.connections import Connections
from jupyter_dist.collective.ring.flow import Flow, as_bytes
from jupyter_dist.collective.ring.handshake import Membership
from jupyter_dist.collective.ring.stopped import Stopped
from jupyter_dist.collective.transport import Message
from jupyter_dist.collective.user_line import warn_user
from jupyter_dist.model.addresses import split_address
from jupyter_dist.model.records import SYMMETRIC


class RingTransport:
    """Moves numpy arrays over TCP; see HostTransport for what each method does.

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
        self.on_waiting: Callable[[Call, Sequence[int]], object] = lambda _call, _ranks: None

    def enter(self, timeout_s: float, site: str) -> None:
        """Tell how long the operation that comes next may take, and where it was called."""
        self._timeout_s = timeout_s
        self._site = site

    def all_reduce(self, call: Call, source: Array, target: Array, reduction: str) -> None:
        """Reduce over all ranks into `target`."""
        ufunc = UFUNCS[reduction]
        self._run(call, lambda flow: algorithms.all_reduce(flow, source, target, ufunc))

    def broadcast(self, call: Call, target: Array, root: int) -> None:
        """Give the root's `target` to everybody."""
        self._run(call, lambda flow: algorithms.broadcast(flow, target, root))

    def reduce(self, call: Call, source: Array, target: Array, root: int, reduction: str) -> None:
        """Reduce into the root's `target`, which elsewhere is room to work in."""
        ufunc = UFUNCS[reduction]
        self._run(call, lambda flow: algorithms.reduce(flow, source, target, root, ufunc))

    def all_gather(self, call: Call, source: Array, stack: Array) -> None:
        """Collect every rank's `source` in `stack`."""
        self._run(call, lambda flow: algorithms.all_gather(flow, source, stack))

    def reduce_scatter(self, call: Call, rows: Array, target: Array, reduction: str) -> None:
        """Reduce `rows` over all ranks; row `rank` goes to `target`."""
        ufunc = UFUNCS[reduction]
        self._run(call, lambda flow: algorithms.reduce_scatter(flow, rows, target, ufunc))

    def all_to_all(self, call: Call, rows: Array, target: Array) -> None:
        """Send row i of `rows` to rank i; row i of `target` comes from rank i."""
        self._run(call, lambda flow: algorithms.all_to_all(flow, rows, target))

    def gather(self, call: Call, source: Array, stack: Array | None, root: int) -> None:
        """Collect every rank's `source` in the root's `stack`."""
        self._run(call, lambda flow: algorithms.gather(flow, source, stack, root))

    def scatter(self, call: Call, stack: Array | None, target: Array, root: int) -> None:
        """Give row i of the root's `stack` to rank i's `target`."""
        self._run(call, lambda flow: algorithms.scatter(flow, stack, target, root))

    def exchange(self, call: Call, sent: Sequence[Message], received: Sequence[Message]) -> None:
        """Send and receive all of these at once."""

        def algorithm(flow: Flow) -> None:
            for message in sent:
                data = as_bytes(message.array)
                flow.open(message.peer, data.nbytes, message.call)
                flow.send(message.peer, data)
            for message in received:
                flow.receive(message.peer, as_bytes(message.array), message.call)
            flow.run()

        self._run(call, algorithm)

    def barrier(self, call: Call) -> None:
        """Wait until every rank is here."""
        # Without data only a direct exchange makes everybody wait for everybody.
        size = self._me.size
        steps = np.zeros(size if size > algorithms.DIRECT_RANKS else 0, np.uint8)
        self._run(call, lambda flow: algorithms.all_reduce(flow, steps, steps, np.add))

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

    def _run(self, call: Call, algorithm: Callable[[Flow], None]) -> None:
        flow = Flow(self._links, call, self._timeout_s, self._site)
        flow.on_waiting = self.on_waiting
        try:
            # numpy says nothing of a NaN in a minimum, ml_dtypes would.
            with np.errstate(invalid="ignore"):
                algorithm(flow)
        except Stopped as stop:
            raise Broken(self._settle(stop, call)) from None
        if flow.other_site and call.operation in SYMMETRIC:
            self._warn_of(call, flow.other_site)

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
        what = (
            "this barrier may end with another one"
            if call.operation == "barrier"
            else ("their results are mixed up")
        )
        warn_user(
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
