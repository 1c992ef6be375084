"""The address at which debuggers attach to the ranks of a cluster."""

import hashlib
import hmac
import json
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jupyter_dist.cluster.debugging.client_stream import ClientStream
from jupyter_dist.cluster.debugging.debugger_line import lines_of
from jupyter_dist.cluster.debugging.sessions import (
    ClusterSession,
    Greeting,
    RankSession,
    Requests,
    Session,
    greet,
    read_requests,
)
from jupyter_dist.errors import UsageError
from jupyter_dist.launch.files.connection_file import ConnectionInfo

if TYPE_CHECKING:
    from jupyter_dist.cluster.observed import ObservedCluster

_LOOPBACK = {"127.0.0.1": socket.AF_INET, "localhost": socket.AF_INET, "::1": socket.AF_INET6}
_REFUSED = (
    "this address is for who has the token of the cluster. In VS Code's launch.json it is "
    '"token"; `jupyter dist debug --listen` shows it.'
)


class DebugAddress:
    """Listens until it is closed, or the cluster has ended."""

    def __init__(
        self,
        cluster: "ObservedCluster",
        info: ConnectionInfo,
        listen: str,
        ranks: tuple[int, ...] | None,
    ) -> None:
        """`listen` is HOST:PORT, of this machine only. Raise UsageError where it cannot be had."""
        self._cluster, self._ranks = cluster, ranks
        self.token = make_token(info)
        self._listener = _bind(listen)
        self.host, self.port = self._listener.getsockname()[:2]
        self._sessions: dict[threading.Thread, Session] = {}
        self._door = threading.Lock()
        self._is_open = True
        self._accepting = threading.Thread(target=self._accept, name="debuggers", daemon=True)
        self._accepting.start()

    def launch_configuration(self) -> dict[str, Any]:
        """Return what VS Code's launch.json has to say to attach here."""
        return {
            "name": f"ranks of {self._cluster.name}",
            "type": "debugpy",
            "request": "attach",
            "connect": {"host": self.host, "port": self.port},
            "token": self.token,
            "justMyCode": False,
        }

    def close(self, reason: str = "nothing listens for debuggers any more") -> None:
        """End all sessions, so that all ranks go on; return when they are over."""
        with self._door:
            self._is_open = False
            sessions = dict(self._sessions)
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()
        for session in sessions.values():
            session.end(reason)
        for thread in sessions:
            thread.join()

    # --- clients, each on a thread of its own ---

    def _accept(self) -> None:
        while True:
            try:
                connection, _peer = self._listener.accept()
            except OSError:
                return
            serving = threading.Thread(
                target=self._serve, args=(ClientStream(connection),), name="debugger", daemon=True
            )
            serving.start()

    def _serve(self, client: ClientStream) -> None:
        requests = read_requests(client.read())
        try:
            session = self._admit(client, requests)
            if session is None:
                return
            with self._door:
                if not self._is_open:
                    session.end("nothing listens for debuggers any more")
                self._sessions[threading.current_thread()] = session
            session.serve(requests)
        finally:
            with self._door:
                self._sessions.pop(threading.current_thread(), None)
            client.close()
            client.release()

    def _admit(self, client: ClientStream, requests: Requests) -> Session | None:
        """Greet a client and return its session; None: it has shown no token, or means no rank."""
        greeting = greet(client, requests)
        if greeting is None:
            return None
        command, arguments = greeting.attach.get("command"), greeting.attach.get("arguments") or {}
        token = arguments.get("token") if isinstance(arguments, dict) else None
        known = isinstance(token, str) and hmac.compare_digest(
            token.encode(errors="replace"), self.token.encode()
        )
        if not known or command not in ("attach", "launch") or not greeting.initialize:
            client.answer(greeting.attach, problem=_REFUSED)
            return None
        client.trust()
        return self._open(client, greeting)

    def _open(self, client: ClientStream, greeting: Greeting) -> Session | None:
        arguments, size = greeting.attach["arguments"], self._cluster.world_size
        chosen = list(range(size) if self._ranks is None else self._ranks)
        wanted = [arguments["rank"]] if "rank" in arguments else arguments.get("ranks", chosen)
        if not isinstance(wanted, list) or not wanted or not _are_ranks(wanted, chosen):
            names = ", ".join(map(str, chosen))
            problem = f"ranks {json.dumps(wanted)}: this address is of ranks {names}."
            client.answer(greeting.attach, problem=problem)
            return None
        if "rank" in arguments or len(chosen) == 1:
            self._await_leave(wanted[0])
            return RankSession(client, greeting, wanted[0], lines_of(self._cluster))
        return ClusterSession(client, greeting, tuple(wanted), (self.host, self.port))

    def _await_leave(self, rank: int) -> None:
        """Let an editor that attaches again not be refused for its own earlier session."""
        with self._door:
            sessions = tuple(self._sessions.values())
        for session in sessions:
            if isinstance(session, RankSession) and session.rank == rank:
                session.await_leave()


def make_token(info: ConnectionInfo) -> str:
    """Return the token of a cluster: the same as long as it lives, for who may use the cluster."""
    secret = info.credentials.own.secret.encode()
    return hmac.new(secret, b"debug address", hashlib.sha256).hexdigest()


def _are_ranks(wanted: list[Any], chosen: list[int]) -> bool:
    return all(type(each) is int and each in chosen for each in wanted)


def _bind(listen: str) -> socket.socket:
    host, _colon, port = listen.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--listen {listen!r}: HOST:PORT is accepted, as 127.0.0.1:5678.")
    if host not in _LOOPBACK:
        raise UsageError(
            f"--listen {listen!r}: what debuggers say is not encrypted, so it must not leave this "
            f"machine. Accepted: {', '.join(_LOOPBACK)}. From another machine: "
            "ssh -L 5678:127.0.0.1:5678 HERE."
        )
    listener = socket.socket(_LOOPBACK[host], socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, int(port)))
        listener.listen()
    except OSError as problem:
        listener.close()
        raise UsageError(f"--listen {listen!r}: {problem}. Port 0 takes a free one.") from None
    return listener
