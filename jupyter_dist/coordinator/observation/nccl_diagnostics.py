"""What NCCL itself says while a cell hangs: agents read its RAS, which knows all ranks of a job."""

from collections.abc import Callable
from itertools import count

import msgspec

from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.model.ranks.ras import RasReport, explain_ras, merge_reports
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.unreadable import read_or

INTERVAL_S = 5.0
"""How often NCCL is asked, at most."""
_MOST_HOSTS = 16
_REPORT = msgspec.msgpack.Decoder(RasReport)
"""Each may answer for all; more are asked for ranks that do not know each other."""


class RasReading:
    """The question that agents have been asked last; only answers to that one count."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._numbers = count(1)
        self._request_id = ""
        self._on_read: Callable[[RasReport], None] | None = None

    def ask(self, hosts: list[str], on_read: Callable[[RasReport], None]) -> int:
        """Ask these hosts' agents; gives how many will tell `on_read`."""
        self._request_id = f"ras-{next(self._numbers)}"
        self._on_read = on_read
        command = pb.AgentCommand(read_ras=pb.ReadRas(request_id=self._request_id))
        return sum(self._sender.to_agent(host, command) for host in hosts)

    def on_event(self, _host: str, event: pb.AgentEvent, _now_s: float) -> None:
        """Take in what an agent has read; nothing is an answer, too."""
        read = event.ras_read
        if self._on_read is not None and read.request_id == self._request_id:
            self._on_read(read_or(_REPORT, read.report, RasReport()))


class NcclDiagnostics:
    """What NCCL says of one cell; told once it has said the same twice, for counts run ahead."""

    def __init__(self, roster: Roster, reading: RasReading) -> None:
        self._roster = roster
        self._reading = reading
        self._next_ask_s = 0.0
        self._waiting = 0
        self._reports: list[RasReport] = []
        self._before = self._latest = self._told = ""

    def testify(self, now_s: float) -> str:
        """Return NCCL's sentence, as far as it is known; asks again where it is time to."""
        if now_s >= self._next_ask_s:
            if self._latest != self._told:
                self._told = ""
            self._next_ask_s = now_s + INTERVAL_S
            self._before, self._latest, self._reports = self._latest, "", []
            self._waiting = self._reading.ask(self._hosts(), self._take)
        return self._told

    def _take(self, report: RasReport) -> None:
        self._reports.append(report)
        self._latest = explain_ras(merge_reports(self._reports), self._rank_of())
        if self._latest == self._before:
            self._told = self._latest
        elif len(self._reports) >= self._waiting:
            self._told = ""

    def _hosts(self) -> list[str]:
        """Choose whom to ask: hosts with GPUs first."""
        names = {engine.info.host for engine in self._roster.present()}
        hosts = [host for host in self._roster.hosts.values() if host.name in names]
        hosts.sort(key=lambda host: host.joined is None or host.joined.gpu_count == 0)
        return [host.name for host in hosts[:_MOST_HOSTS]]

    def _rank_of(self) -> dict[tuple[str, int], int]:
        """Map addresses and pids to ranks; what two ranks have in common (loopback) is left out."""
        found: dict[tuple[str, int], int | None] = {}
        for engine in self._roster.engines:
            for interface in self._roster.hosts[engine.info.host].network.interfaces:
                key = (interface.address, engine.pid)
                rank = engine.info.rank
                found[key] = rank if found.get(key, rank) == rank else None
        return {key: rank for key, rank in found.items() if rank is not None}
