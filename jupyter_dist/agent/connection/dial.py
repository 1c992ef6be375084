"""The way home: every address that the coordinator may have is tried, and what came of it told.

An address counts only when the coordinator itself answers there, on all of its three ports: a
machine with the same private address, or a firewall that lets one port through, is found out here
and not by a silence later.
"""

import queue
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from time import monotonic

import msgspec

from jupyter_dist.errors import DistError
from jupyter_dist.launch.launcher import SERVER_NAME, JoinTicket

ATTEMPT_TIMEOUT_S = 5.0
"""A port that is silent for so long is behind a firewall."""
PROOF_TIMEOUT_S = 15.0
"""Whoever accepts the connection may be a coordinator with many hosts and few cores."""
PREFERENCE_S = 0.05
"""After one address worked, a better one may still answer for so long."""
_SLICE_S = 0.2
LOOPBACK = "127.0.0.1"


class Found(msgspec.Struct, frozen=True):
    """The way that works, and those that do not."""

    address: str
    local_address: str
    failed: tuple[str, ...] = ()


class CoordinatorUnreachable(DistError):
    """None of the coordinator's addresses works from here."""

    def __init__(self, cluster: str, failed: Sequence["_Outcome"]) -> None:
        groups: dict[str, list[str]] = {}
        for outcome in failed:
            groups.setdefault(outcome.problem, []).append(outcome.address)
        reasons = (f"{', '.join(addresses)} {what}" for what, addresses in groups.items())
        tried = "; ".join(reasons) or "it has none"
        super().__init__(f"no address of cluster {cluster!r} works from this host: {tried}")


class _Outcome(msgspec.Struct, frozen=True):
    order: int
    address: str
    local_address: str = ""
    problem: str = ""


def find_home(ticket: JoinTicket) -> Found:
    """Try all addresses at once; give the likeliest that works.

    Raises CoordinatorUnreachable, which names each address with the reason.
    """
    if ticket.homes == (LOOPBACK,):
        return Found(LOOPBACK, LOOPBACK)  # the same machine, or ssh's own end of a tunnel
    outcomes: queue.SimpleQueue[_Outcome] = queue.SimpleQueue()
    for order, address in enumerate(ticket.homes):
        threading.Thread(
            target=lambda *case: outcomes.put(_try(*case)),
            args=(order, address, ticket),
            name=f"dial-{address}",
            daemon=True,
        ).start()
    worked: list[_Outcome] = []
    failed: list[_Outcome] = []
    for outcome in _collect(outcomes, len(ticket.homes), worked):
        (failed if outcome.problem else worked).append(outcome)
    failed.sort(key=lambda outcome: outcome.order)
    if not worked:
        raise CoordinatorUnreachable(ticket.cluster, failed)
    best = min(worked, key=lambda outcome: outcome.order)
    reasons = tuple(f"{outcome.address} {outcome.problem}" for outcome in failed)
    return Found(best.address, best.local_address, reasons)


def _collect(
    outcomes: "queue.SimpleQueue[_Outcome]", count: int, worked: list[_Outcome]
) -> Iterator[_Outcome]:
    """Yield what comes, until all have come, or a moment after the first that worked."""
    deadline_s = monotonic() + 3 * ATTEMPT_TIMEOUT_S + PROOF_TIMEOUT_S + 1.0
    is_shortened = False
    while count and (remaining_s := deadline_s - monotonic()) > 0:
        try:
            yield outcomes.get(timeout=min(remaining_s, _SLICE_S))
        except queue.Empty:
            continue
        count -= 1
        if worked and not is_shortened:
            is_shortened = True
            deadline_s = monotonic() + PREFERENCE_S


def _try(order: int, address: str, ticket: JoinTicket) -> _Outcome:
    ports = ticket.ports
    port = ports.agents
    local_address = problem = ""
    try:
        local_address = _prove(address, port, ticket.ca_certificate)
        for port in (ports.engines, ports.beats):
            with socket.create_connection((address, port), ATTEMPT_TIMEOUT_S):
                pass
    except ssl.SSLError as error:
        problem = f"answered on port {port}, but not as this cluster's coordinator"
        if isinstance(error, ssl.SSLCertVerificationError):  # this host's clock may be wrong, too
            problem += f" ({error.verify_message})"
    except TimeoutError:
        problem = f"stayed silent on port {port} (a firewall, or no way there)"
    except OSError as error:
        problem = f"cannot be reached on port {port} ({error.strerror or error})"
    return _Outcome(order, address, local_address, problem)


def _prove(address: str, port: int, authority: bytes) -> str:
    """Make sure that the cluster's coordinator answers; give our end of the connection."""
    # Not the default context: from Python 3.13 on that refuses authorities as plain as ours.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority.decode())
    with socket.create_connection((address, port), ATTEMPT_TIMEOUT_S) as plain:
        plain.settimeout(PROOF_TIMEOUT_S)
        with context.wrap_socket(plain, server_hostname=SERVER_NAME) as secure:
            return str(secure.getsockname()[0])
