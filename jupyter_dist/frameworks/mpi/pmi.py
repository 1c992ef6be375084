"""The service through which MPI libraries find each other: PMI-1, as mpiexec of MPICH speaks it.

Processes that nobody has started together become one MPI_COMM_WORLD: each has a rank, puts where
it can be reached, and waits in a barrier until all have. It is needed while MPI starts only.
Each rank's first line is ours, so that nobody else takes a place; the connection is then MPI's.
"""

import hmac
import secrets
import selectors
import socket
import threading
from collections.abc import Mapping, Sequence
from itertools import groupby

from jupyter_dist.errors import DistError, FrameworkError
from jupyter_dist.model.hosts.addresses import join_address, split_address

_MOST_LINE = 1 << 16
_JOIN_TIMEOUT_S = 10.0

Replies = list[tuple[int, str]]
"""Lines for connections, by their numbers."""


class Stranger(DistError):
    """Whoever is connected is no rank of this world; its connection is to be closed."""


class PmiTable:
    """What ranks have put, and who waits in the barrier. Pure."""

    def __init__(self, world_size: int, secret: str) -> None:
        self._world_size = world_size
        self._secret = secret
        name = f"jupyter_dist_{secrets.token_hex(4)}"
        self._answers = {
            "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "get_maxes": "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024",
            "get_appnum": "cmd=appnum appnum=0",
            "get_universe_size": f"cmd=universe_size size={world_size}",
            "get_my_kvsname": f"cmd=my_kvsname kvsname={name}",
            "finalize": "cmd=finalize_ack rc=0",
        }
        self._values: dict[str, str] = {}
        self._ranks: dict[int, int] = {}
        """By number of the connection."""
        self._waiting: list[int] = []

    def answer(self, member: int, line: str) -> Replies:
        """Take a line of a connection, and give what is to be said to whom; raises Stranger."""
        fields = read_fields(line)
        command = fields.get("cmd", "")
        if member not in self._ranks:
            return [(member, self._join(member, command, fields))]
        match command:
            case "barrier_in":
                return self._enter_barrier(member)
            case "put":
                self._values[fields.get("key", "")] = fields.get("value", "")
                return [(member, "cmd=put_result rc=0 msg=success")]
            case "get":
                value = self._values.get(fields.get("key", ""))
                if value is None:
                    return [(member, "cmd=get_result rc=-1 msg=key_not_found value=unknown")]
                return [(member, f"cmd=get_result rc=0 msg=success value={value}")]
            case _:
                # Spawning and publishing: MPI raises it.
                unknown = f"cmd={command}_result rc=-1 msg=not_supported"
                return [(member, self._answers.get(command, unknown))]

    def forget(self, member: int) -> None:
        """Take note that a connection is gone; its place is free again."""
        self._ranks.pop(member, None)
        if member in self._waiting:
            self._waiting.remove(member)

    def _join(self, member: int, command: str, fields: Mapping[str, str]) -> str:
        given = fields.get("secret", "")
        if command != "join" or not hmac.compare_digest(given.encode(), self._secret.encode()):
            raise Stranger("the first line does not have the secret of this world")
        rank = fields.get("rank", "")
        if not rank.isdecimal() or int(rank) >= self._world_size:
            raise Stranger(f"there is no rank {rank} among {self._world_size}")
        if int(rank) in self._ranks.values():
            raise Stranger(f"rank {rank} is here already")
        self._ranks[member] = int(rank)
        self._values["PMI_process_mapping"] = fields.get("mapping", "")
        return "cmd=joined"

    def _enter_barrier(self, member: int) -> Replies:
        self._waiting.append(member)
        if len(self._waiting) < self._world_size:
            return []
        released, self._waiting = self._waiting, []
        return [(one, "cmd=barrier_out rc=0") for one in released]


def read_fields(line: str) -> dict[str, str]:
    """Read `cmd=put key=a value=b c`: the value is all that follows, the others are words."""
    head, has_value, value = line.partition(" value=")
    fields = dict(word.split("=", 1) for word in head.split() if "=" in word)
    if has_value:
        fields["value"] = value
    return fields


def map_processes(host_ranks: Sequence[int]) -> str:
    """Write which rank is on which host, in PMI's way: (first host, hosts, ranks on each)."""
    runs = [(host, len(list(group))) for host, group in groupby(host_ranks)]
    blocks: list[tuple[int, int, int]] = []
    for host, count in runs:
        if blocks and sum(blocks[-1][:2]) == host and blocks[-1][2] == count:
            first, hosts, _ = blocks[-1]
            blocks[-1] = (first, hosts + 1, count)
        else:
            blocks.append((host, 1, count))
    return f"(vector,{','.join(f'({first},{hosts},{count})' for first, hosts, count in blocks)})"


class PmiServer:
    """Serves on a thread of its own until its process ends."""

    def __init__(self, bind: str, world_size: int) -> None:
        """Begin to serve; raises FrameworkError when it cannot listen there."""
        host, port = split_address(bind)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._listener = socket.create_server((host, port), family=family)
        except OSError as error:
            raise FrameworkError(f"MPI's service cannot listen at {bind}: {error}.") from error
        secret = secrets.token_hex(16)
        self._table = PmiTable(world_size, secret)
        self.address = f"{join_address(host, self._listener.getsockname()[1])}/{secret}"
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._unread: dict[socket.socket, bytes] = {}
        self._members: dict[int, socket.socket] = {}
        threading.Thread(target=self._serve, daemon=True, name="pmi").start()

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    self._read(key.fd)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # it was given up meanwhile
            return
        connection.settimeout(5.0)  # a peer that does not read must not stop the others
        self._selector.register(connection, selectors.EVENT_READ)
        self._members[connection.fileno()] = connection
        self._unread[connection] = b""

    def _read(self, member: int) -> None:
        connection = self._members[member]
        try:
            data = connection.recv(_MOST_LINE)
        except OSError:
            data = b""
        *lines, rest = (self._unread[connection] + data).split(b"\n")
        self._unread[connection] = rest
        if not data or len(rest) > _MOST_LINE:
            self._drop(member)
            return
        try:
            for line in lines:
                for to, reply in self._table.answer(member, line.decode("utf-8", "replace")):
                    self._members[to].sendall(f"{reply}\n".encode())
        except (Stranger, OSError):
            self._drop(member)

    def _drop(self, member: int) -> None:
        self._table.forget(member)
        connection = self._members.pop(member)
        self._unread.pop(connection)
        self._selector.unregister(connection)
        connection.close()


serve = PmiServer


def join_world(address: str, rank: int, mapping: str) -> int:
    """Take the place of a rank; gives the connection's descriptor, which is MPI's from now on.

    Raises FrameworkError.
    """
    where, _, secret = address.rpartition("/")
    try:
        with socket.create_connection(split_address(where), _JOIN_TIMEOUT_S) as connection:
            line = f"cmd=join secret={secret} rank={rank} mapping={mapping}\n"
            connection.sendall(line.encode())
            reply = connection.recv(256)
            if reply != b"cmd=joined\n":
                raise FrameworkError(f"MPI's service at {where} has no place for rank {rank}.")
            connection.settimeout(None)
            return connection.detach()
    except OSError as error:
        raise FrameworkError(f"MPI's service at {where} cannot be reached: {error}.") from error
