"""The main of an ipyparallel controller that is one process, and ends with whoever started it.

    python -P -m jupyter_dist.launch.processes.process_life PARENT_PID <this module>

ipyparallel's own is nine processes, of which eight live on when the first one is killed. Here its
schedulers, relays and heart monitor are threads of one process, so the kernel ends all of them
with one signal. Orders come on stdin; when that is closed it ends, too.
"""

import logging
import os
import resource
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import ipyparallel.controller.app as controller_app
import msgspec
from traitlets.config import Config

from jupyter_dist.errors import DistError
from jupyter_dist.frameworks.ipyparallel.controller_messages import (
    EVERYWHERE,
    LOOPBACK,
    End,
    Failed,
    Open,
    Order,
    Registered,
    Serving,
    Told,
    Unregister,
    Unregistered,
)

MOST_MISSES = 1_000_000
"""Beats that an engine may miss: two days of them. Whether a rank lives is decided by our own
health, which tells a stopped or busy process from one that is gone; the coordinator has those
unregistered at once."""
_FAREWELL_S = 0.2
"""For the last messages to leave."""
_Tell = Callable[[Told], None]
"""Says one line to the coordinator."""


class BroadcastScheduler(controller_app.BroadcastScheduler):  # type: ignore[misc]  # not typed
    """One of several in a process: ipyparallel's would share what they collect."""

    def __init__(self, **arguments: Any) -> None:
        self.accumulated_replies: dict[str, Any] = {}
        self.accumulated_targets: dict[str, Any] = {}
        super().__init__(**arguments)


class Controller(controller_app.IPController):  # type: ignore[misc]  # not typed
    """ipyparallel's controller with our ports, and without files, signals and processes."""

    def __init__(self, order: Open, **arguments: Any) -> None:
        self._order, self._allowed_ports = order, iter(order.ports)
        self._reserved: list[socket.socket] = []
        super().__init__(**arguments)

    def load_config_file(self, *_: Any, **__: Any) -> None:
        """Read no file: what a user has set up for other controllers is not meant for this one."""

    def to_work_dir(self) -> None:
        """Stay here, and keep the current directory out of the import path."""

    def init_signal(self) -> None:
        """Leave signals as they are: nothing has to be tidied up."""

    def next_port(self, pool_name: str = "common") -> int:
        """Return a free port that nobody else gets until it is used.

        It stays bound by a socket that does not listen, beside which ZeroMQ may bind it as well.
        """
        is_chosen = pool_name == "engine" and bool(self._order.ports)
        for port in self._allowed_ports if is_chosen else (0,):
            place = socket.socket()
            place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                place.bind(("", port))
            except OSError:
                place.close()
                if not is_chosen:
                    raise
            else:
                self._reserved.append(place)
                return int(place.getsockname()[1])
        raise DistError(
            "the range of ports has no free one left for the ipyparallel controller, which takes "
            "9 of them beside those of the cluster. Start the cluster with more --ports"
        )

    def get_python_scheduler_args(
        self, scheduler_name: str, scheduler_class: type, *arguments: Any, **options: Any
    ) -> dict[str, Any]:
        """Return how a scheduler is made."""
        if scheduler_class is controller_app.BroadcastScheduler:
            scheduler_class = BroadcastScheduler
        found: dict[str, Any] = super().get_python_scheduler_args(
            scheduler_name, scheduler_class, *arguments, **options
        )
        return found

    def bind(self, place: Any, url: str) -> Any:
        """Listen; where engines may come by every address, clients have theirs with that."""
        if self.engine_ip == EVERYWHERE and url == self.client_url("registration"):
            return None
        return super().bind(place, url)

    def connections(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what clients and engines need to connect, with the keys."""
        base = {
            "ssh": "",
            "key": self.session.key.decode("ascii"),
            "curve_serverkey": self.curve_publickey.decode("ascii"),
            "location": None,  # each gets an address that it reaches: there is nothing to guess
            "pack": self.session.packer,
            "unpack": self.session.unpacker,
            "signature_scheme": self.session.signature_scheme,
        }
        return {**self.client_info, **base}, {**self.engine_info, **base}


def make_controller(order: Open) -> Controller:
    """Open every socket; what they take in waits until `start`."""
    controller_app.Process = _thread  # its heart monitor takes a process even with threads
    config = Config()
    config.ProfileDir.location = order.directory
    config.Session.key = os.urandom(32).hex().encode()  # else CURVE alone would do for ipyparallel
    config.HeartMonitor.period = order.heart_period_ms
    config.HeartMonitor.max_heartmonitor_misses = MOST_MISSES
    app = config.IPController
    app.enable_curve = app.use_threads = True
    app.client_ip = app.monitor_ip = app.location = LOOPBACK
    app.engine_ip = order.engine_address
    config.Application.log_level = logging.WARNING
    controller = Controller(order, config=config, write_connection_files=False)
    controller.initialize([])
    return controller


def _thread(kwargs: dict[str, Any], **arguments: Any) -> threading.Thread:
    """Make what its heart monitor runs in, which would tell of every beat."""
    return threading.Thread(kwargs={**kwargs, "log_level": logging.WARNING}, **arguments)


def main() -> None:
    """Serve until told to end, or until stdin is closed."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    tell = partial(_tell, os.dup(1))
    os.dup2(2, 1)  # whatever is printed meanwhile goes to the log
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Open)
    # A scheduler of dask, which it may become as well, writes there, too.
    os.environ["IPYTHONDIR"] = os.environ["DASK_TEMPORARY_DIRECTORY"] = order.directory
    try:
        controller = make_controller(order)
    except (DistError, OSError) as error:
        tell(Failed(str(error)))
        os._exit(1)
    _watch_registrations(controller.hub, tell)
    controller.loop.add_callback(tell, Serving(*controller.connections()))
    threading.Thread(target=_take_orders, args=(controller, tell), daemon=True).start()
    controller.start()
    os._exit(0)


def _tell(descriptor: int, told: Told) -> None:
    os.write(descriptor, msgspec.json.encode(told) + b"\n")


def _watch_registrations(hub: Any, tell: _Tell) -> None:
    """Have the hub tell of each engine whose heart it has heard."""
    finish = hub.finish_registration

    def finish_and_tell(heart: bytes) -> None:
        finish(heart)
        if heart in hub.hearts:
            tell(Registered(hub.hearts[heart]))

    hub.finish_registration = finish_and_tell


def _take_orders(controller: Controller, tell: _Tell) -> None:
    """Hand what comes on stdin to the controller's loop."""
    decoder = msgspec.json.Decoder(Order)
    for line in sys.stdin.buffer:
        controller.loop.add_callback(_obey, controller, tell, decoder.decode(line))
    controller.loop.add_callback(_end, controller)


def _obey(controller: Controller, tell: _Tell, order: Order) -> None:
    match order:
        case Unregister():
            for rank in order.ranks:
                controller.hub.unregister_engine(None, {"content": {"id": rank}})
            tell(Unregistered(order.ranks))
        case End() | Open():
            _end(controller)


def _end(controller: Controller) -> None:
    hub = controller.hub
    hub.session.send(hub.notifier, "shutdown_notification", content={"status": "ok"})
    hub.notifier.flush()
    controller.loop.call_later(_FAREWELL_S, os._exit, 0)


if __name__ == "__main__":
    main()
