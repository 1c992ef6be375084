"""The sockets between one engine of ipyparallel and its controller, and how they are opened."""

import threading
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from jupyter_dist.errors import FrameworkError
from jupyter_dist.frameworks.ipyparallel.session import Dict, MessageSession, Place

JOIN_TIMEOUT_S = 10.0
FAREWELL_S = 0.5
"""How long what was said last may take to leave this process."""
PASS_TIMEOUT_S = 1.0
"""How long the controller may take to pass on the last answers."""
_SLICE_MS = 50
_HEART = "inproc://heart"


class Channels:
    """All sockets of one membership, in a context of their own; one thread uses them."""

    def __init__(self, place: Place, speech: MessageSession) -> None:
        self._place = place
        self._speech = speech
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._serverkey = str(place.get("curve_serverkey") or "").encode()
        self._public, self._secret = zmq.curve_keypair() if self._serverkey else (b"", b"")
        self._heart: threading.Thread | None = None
        self._open: list[zmq.Socket[bytes]] = []
        try:
            self._registrar = self._make(zmq.DEALER)
            self.shell = self._make(zmq.ROUTER)
            self.control = self._make(zmq.ROUTER)
            self.iopub = self._make(zmq.PUB)
            self.pings = self._make(zmq.SUB)
            """Gets what the heart passes on."""
            self.pings.subscribe(b"")
            self.pings.bind(_HEART)
        except BaseException:
            self.close()
            raise
        self._poller = zmq.Poller()
        for socket in (self.shell, self.control, self.pings):
            self._poller.register(socket, zmq.POLLIN)

    def _make(self, kind: int) -> "zmq.Socket[bytes]":
        made = self._context.socket(kind)
        self._open.append(made)
        made.linger = round(FAREWELL_S * 1000)
        # No bounds: a ROUTER or PUB drops without a word what is beyond them.
        made.sndhwm = made.rcvhwm = 0
        if kind in {zmq.DEALER, zmq.ROUTER}:
            made.identity = self._speech.uuid.encode()
        return made

    def _connect(self, socket: "zmq.Socket[bytes]", port: int) -> str:
        if self._serverkey:
            socket.curve_serverkey = self._serverkey
            socket.curve_publickey, socket.curve_secretkey = self._public, self._secret
        address = f"{self._place['interface']}:{port}"
        socket.connect(address)
        return address

    # --- becoming an engine ---

    def join(self, is_wanted: Callable[[], bool]) -> float:
        """Become an engine with the rank as its id, and give the period of its heart in seconds.

        Raises FrameworkError after JOIN_TIMEOUT_S, or when `is_wanted` says no.
        """
        deadline_s = monotonic() + JOIN_TIMEOUT_S
        try:
            return self._join(deadline_s, is_wanted)
        except zmq.ZMQError as error:
            raise FrameworkError(
                f"{self._place['interface']} cannot be reached: {error}"
            ) from error

    def _join(self, deadline_s: float, is_wanted: Callable[[], bool]) -> float:
        address = self._connect(self._registrar, self._place["registration"])
        reply = self._register(address, deadline_s, is_wanted)
        wanted = self._speech.engine_id
        if reply["id"] != wanted:
            # An engine of a rank that is gone has it still. Nobody else may have this id.
            for engine_id in (reply["id"], wanted):
                self.unregister(engine_id)
            reply = self._register(address, deadline_s, is_wanted)
        if reply["id"] != wanted:
            self.unregister(reply["id"])
            raise FrameworkError(
                f"the ipyparallel controller at {address} gave the id {reply['id']}, not {wanted}: "
                "another engine holds it. End that one, or start the controller again."
            )
        self._connect_all(deadline_s, is_wanted)
        self._start_heart()
        self._wait_until_known(deadline_s, is_wanted)
        return float(reply["hb_period"]) / 1000

    def _register(self, address: str, deadline_s: float, is_wanted: Callable[[], bool]) -> Dict:
        speech = self._speech
        content = {"uuid": speech.uuid, "id": speech.engine_id}
        speech.say(self._registrar, "registration_request", content)
        for _ in _slices(deadline_s, is_wanted, f"{address} did not answer the registration"):
            if self._registrar.poll(_SLICE_MS):
                break
        reply = self._hear()
        if reply.get("status") != "ok":
            raise FrameworkError(
                f"the ipyparallel controller at {address} refused: "
                f"{reply.get('ename')}: {reply.get('evalue')}"
            )
        return reply

    def _connect_all(self, deadline_s: float, is_wanted: Callable[[], bool]) -> None:
        """Connect, and wait for that: what is sent to an engine before is lost without a word."""
        place = self._place
        broadcast = place["broadcast"][self._speech.engine_id % len(place["broadcast"])]
        ports = {
            self.shell: (place["mux"], place["task"], broadcast),
            self.control: (place["control"],),
            self.iopub: (place["iopub"],),
        }
        waiting: dict[Any, int] = {}
        try:
            for socket, numbers in ports.items():
                waiting[socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)] = len(numbers)
                for number in numbers:
                    self._connect(socket, number)
            what = f"{place['interface']} let no connection through"
            monitors = list(waiting)
            for _ in _slices(deadline_s, is_wanted, what):
                for monitor in monitors:
                    while waiting[monitor] > 0 and monitor.poll(_SLICE_MS // len(monitors)):
                        recv_monitor_message(monitor)
                        waiting[monitor] -= 1
                if not any(count > 0 for count in waiting.values()):
                    return
        finally:
            for socket in ports:
                socket.disable_monitor()
            for monitor in waiting:
                monitor.close(0)

    def _hear(self) -> Dict:
        _, message = self._speech.understand(self._registrar.recv_multipart(copy=False))
        content: Dict = message["content"]
        return content

    def _wait_until_known(self, deadline_s: float, is_wanted: Callable[[], bool]) -> None:
        """Wait until the controller has heard the heart, which is when it counts the engine in.

        A client that connects in that very moment may never hear of the engine.
        """
        speech = self._speech
        what = f"the ipyparallel controller at {self._place['interface']} did not hear the heart"
        for _ in _slices(deadline_s, is_wanted, what):
            speech.say(self._registrar, "connection_request", {})
            if self._registrar.poll(_SLICE_MS):
                engines = self._hear().get("engines", {})
                if engines.get(str(speech.engine_id)) == speech.uuid:
                    return
                list(receive_all(self.pings))
                self.pings.poll(_SLICE_MS)  # the next beat may be the one that it counts with

    def _start_heart(self) -> None:
        """Answer the controller's pings from now on, also while this interpreter is busy."""
        ping, pong, seen = self._make(zmq.SUB), self._make(zmq.DEALER), self._make(zmq.PUB)
        for socket in (ping, pong, seen):
            socket.linger = 0
        ping.subscribe(b"")
        self._connect(ping, self._place["hb_ping"])
        self._connect(pong, self._place["hb_pong"])
        seen.connect(_HEART)
        beat = (ping, pong, seen)
        heart = threading.Thread(target=_beat, args=beat, name="parallel-heart", daemon=True)
        heart.start()
        self._heart = heart
        for socket in beat:  # which it closes
            self._open.remove(socket)

    def wait(self, descriptor: int, timeout_s: float) -> None:
        """Wait until something has come here, or at this descriptor, but not for longer."""
        self._poller.register(descriptor, zmq.POLLIN)
        self._poller.poll(round(1000 * timeout_s))

    # --- leaving ---

    def await_passed(self, msg_ids: set[str]) -> None:
        """Wait until the controller has passed on the answers to these requests, PASS_TIMEOUT_S.

        They go by other sockets than what is said in the end, which would overtake them.
        """
        deadline_s = monotonic() + PASS_TIMEOUT_S
        asked = {"msg_ids": sorted(msg_ids), "status_only": True}
        has_passed = not msg_ids
        while not has_passed and monotonic() < deadline_s:
            self._speech.say(self._registrar, "result_request", asked)
            if self._registrar.poll(_SLICE_MS):
                has_passed = msg_ids <= set(self._hear().get("completed", ()))
                if not has_passed:
                    list(receive_all(self.pings))
                    self.pings.poll(_SLICE_MS)

    def unregister(self, engine_id: int | None = None) -> None:
        """Say that this engine leaves, or the one that has this id."""
        leaving = self._speech.engine_id if engine_id is None else engine_id
        self._speech.say(self._registrar, "unregistration_request", {"id": leaving})

    def close(self) -> None:
        """Close all, after at most FAREWELL_S."""
        for socket in self._open:
            socket.close()
        self._context.term()  # which ends the heart, too
        if self._heart is not None:
            self._heart.join()


def _beat(ping: Any, pong: Any, seen: Any) -> None:
    try:
        zmq.proxy(ping, pong, seen)
    except zmq.ZMQError:
        pass  # its context has ended
    finally:
        for socket in (ping, pong, seen):
            socket.close()


def _slices(deadline_s: float, is_wanted: Callable[[], bool], what: str) -> Iterator[None]:
    """Go on until someone stops; raises FrameworkError when it takes too long."""
    while True:
        yield
        if not is_wanted():
            raise FrameworkError("it was told to leave again before it had joined")
        if monotonic() >= deadline_s:
            raise FrameworkError(
                f"{what} within {JOIN_TIMEOUT_S:g} s. Look whether the ipyparallel controller "
                "runs, and whether this host reaches that address."
            )


def receive_all(socket: "zmq.Socket[bytes]") -> Iterable[list["zmq.Frame"]]:
    """Return all messages that have arrived."""
    while True:
        try:
            yield socket.recv_multipart(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return
