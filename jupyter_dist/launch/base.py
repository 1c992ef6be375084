"""What every launcher has in common: a process on a host that turns into an agent."""

from typing import Protocol

import msgspec

from jupyter_dist.protocol.credentials import Credentials


class Invitation(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent needs to dial home; travels on its stdin, never on a command line."""

    cluster: str
    host: str
    coordinator_address: str
    """`host:port` of the coordinator's gRPC service."""
    ca_certificate: bytes
    certificate: bytes
    private_key: bytes
    engines_address: str
    beats_address: str
    engine_credentials: Credentials
    bind_host: str
    communicator: str
    collective_timeout_s: float
    env: dict[str, str]
    cwd: str


class AgentProcess(Protocol):
    """An agent that is being started; shaped like Popen."""

    @property
    def pid(self) -> int:
        """Process number on this machine (of ssh, for a remote one)."""

    def invite(self, invitation: Invitation) -> None:
        """Tell it where home is."""

    def poll(self) -> int | None:
        """Give the exit status, or None while it runs."""

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the end and give the exit status, or None when it still runs."""

    def terminate(self) -> None:
        """Ask it to clean up and end."""

    def kill(self) -> None:
        """End it at once."""


class Launcher(Protocol):
    """A way to get an agent onto a host."""

    def start(self, host: str) -> AgentProcess:
        """Start an agent on this host; raises OSError when that cannot even be tried."""
