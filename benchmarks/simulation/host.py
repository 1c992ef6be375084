"""A host without processes: an agent's stream to the coordinator, and simulated ranks."""

import asyncio
import signal
import sys
import threading
import time
from functools import cache, partial
from itertools import chain

import msgspec
import zmq
from simulation.lines import DialledLine, RelayedLine, SimulatedRelay
from simulation.rank import Crowd, SimulatedRank

from jupyter_dist.agent.connection.coordinator_stream import CoordinatorStream
from jupyter_dist.agent.connection.dial import Found, find_home
from jupyter_dist.agent.host.telemetry import plan_looks
from jupyter_dist.control.relay.doors import Home
from jupyter_dist.control.relay.engine_dealer import RankHome
from jupyter_dist.errors import DistError
from jupyter_dist.launch.launcher import JoinTicket
from jupyter_dist.model.hosts.addresses import join_address
from jupyter_dist.model.ranks.records import HostRecords
from jupyter_dist.probe.software import list_versions
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.credentials import Credentials, KeyPair
from jupyter_dist.version import WIRE, __version__

_versions = cache(list_versions)


class SimulatedHost(threading.Thread):
    """One host: the thread reads commands, which are obeyed on the thread of the loop."""

    def __init__(
        self,
        number: int,
        slots: int,
        ticket: JoinTicket,
        context: "zmq.Context",
        crowd: Crowd,
    ) -> None:
        super().__init__(name=f"host-{number}", daemon=True)
        self.ranks: dict[str, SimulatedRank] = {}
        """Those that live, by the names of their engines."""
        self._number, self._slots, self._context, self._crowd = number, slots, context, crowd
        # As on a machine of its own, where no process of the coordinator's can be seen.
        self._ticket = msgspec.structs.replace(ticket, machine="", coordinator_pid=0)
        self._intervals = plan_looks(ticket.sample_interval_s, ticket.hosts)
        self._loop = asyncio.get_running_loop()
        self._relay: SimulatedRelay | None = None
        self._is_close = True
        self._next_telemetry: asyncio.TimerHandle | None = None
        self._is_stopping = self._is_over = False

    def run(self) -> None:
        """Find home and attend, until the coordinator says stop or is gone."""
        try:
            with self._crowd.joining:
                self._found = find_home(self._ticket)
                self._stream = CoordinatorStream(self._ticket, self._found.address)
                self._stream.tell(pb.AgentEvent(joined=self._introduction(self._found)))
                commands = self._stream.commands()
                admitted = next(commands, None)
            for command in chain((admitted,) if admitted else (), commands):
                self._loop.call_soon_threadsafe(self._obey, command)
            self._stream.close()
            problem = self._stream.refusal
        except DistError as error:
            problem = str(error)
        if problem:
            sys.stderr.write(f"host {self._number}: {problem}\n")

    def kill(self, rank: SimulatedRank) -> None:
        """Let a rank die, and tell that, as an agent does whose zygote has seen it."""
        del self.ranks[rank.engine]
        rank.end()
        exited = _exited(rank, signal=signal.SIGKILL)
        self._stream.tell(pb.AgentEvent(engine_exited=exited))

    def _introduction(self, found: Found) -> pb.Joined:
        name = f"node{self._number:05}"
        address = f"10.{self._number >> 8}.{self._number & 255}.1"
        return pb.Joined(
            host=name,
            hostname=name,
            machine=name,
            pid=1,
            version=__version__,
            wire=WIRE,
            python=sys.executable,
            versions=_versions(),
            slots=self._slots,
            cpu_count=self._slots,
            memory_total_bytes=1 << 40,
            log_dir="/nowhere",
            interfaces=[pb.Interface(name="eth0", address=address, prefix_length=8)],
            home_address=found.address,
            local_address=address,
        )

    def _obey(self, command: pb.AgentCommand) -> None:
        match command.WhichOneof("command"):
            case "admitted":
                self._tell_telemetry()
            case "observe":
                self._is_close = command.observe.is_close
                self._tell_telemetry()
            case "start_engines":
                self._loop.create_task(self._start(command.start_engines))
            case "send_signal":
                self._send_signal(command.send_signal)
            case "stop":
                self._stop(command.stop.grace_s)
            case _:
                self._answer(command)

    def _answer(self, command: pb.AgentCommand) -> None:
        """Answer what asks for files, records or stacks, of which there are none here."""
        match command.WhichOneof("command"):
            case "place_chunk" if command.place_chunk.is_last:
                placed = pb.Placed(request_id=command.place_chunk.request_id, path="/nowhere")
                self._stream.tell(pb.AgentEvent(placed=placed))
            case "read_records":
                nothing = HostRecords("", time.monotonic_ns(), time.time_ns(), ())
                data, request_id = msgspec.msgpack.encode(nothing), command.read_records.request_id
                records = pb.Records(request_id=request_id, data=data, is_last=True)
                self._stream.tell(pb.AgentEvent(records=records))
            case "dump_stacks":
                dumped = pb.StacksDumped(request_id=command.dump_stacks.request_id)
                self._stream.tell(pb.AgentEvent(stacks_dumped=dumped))
            case "read_ras":
                read = pb.RasRead(request_id=command.read_ras.request_id)
                self._stream.tell(pb.AgentEvent(ras_read=read))

    async def _start(self, command: pb.StartEngines) -> None:
        own = KeyPair(command.own_public_key, command.own_secret_key)
        home, ports = self._found.address, self._ticket.ports
        proof = Home(
            f"tcp://{join_address(home, ports.engines)}",
            f"tcp://{join_address(home, ports.beats)}",
            Credentials(command.server_public_key, own),
            command.relay.encode(),
        )
        if command.relay and self._relay is None:
            async with self._crowd.connecting:
                self._relay = SimulatedRelay(self._context, proof)
                await self._relay.stands.wait()
        for place in command.places:
            name = place.engine.encode()
            if self._relay is not None:
                open_line = partial(RelayedLine, self._relay, name)
            else:
                open_line = partial(DialledLine, self._context, RankHome(*proof[:3], name, ""))
            rank = SimulatedRank(place, open_line, self._crowd, self._on_left)
            self.ranks[place.engine] = rank
        pids = {place.engine: self.ranks[place.engine].pid for place in command.places}
        self._stream.tell(pb.AgentEvent(engines_started=pb.EnginesStarted(pids=pids)))
        for engine in pids:
            self.ranks[engine].say_hello(command.generation)

    def _send_signal(self, command: pb.SendSignal) -> None:
        reached = [self.ranks[name] for name in command.engines if name in self.ranks]
        for rank in reached:
            if command.signal == signal.SIGINT:
                rank.interrupt()
            else:
                self.kill(rank)
        names = [rank.engine for rank in reached]
        sent = pb.SignalSent(request_id=command.request_id, engines=names)
        self._stream.tell(pb.AgentEvent(signal_sent=sent))

    def _stop(self, grace_s: float) -> None:
        """Tell that all is over once the ranks have left, after the time for that at the latest."""
        self._is_stopping = True
        if self.ranks:
            self._loop.call_later(grace_s, self._say_last)
        else:
            self._say_last()

    def _on_left(self, rank: SimulatedRank) -> None:
        del self.ranks[rank.engine]
        self._stream.tell(pb.AgentEvent(engine_exited=_exited(rank)))
        if self._is_stopping and not self.ranks:
            self._say_last()

    def _say_last(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._stop_telemetry()
            self._stream.say_last(pb.AgentEvent(all_stopped=pb.AllStopped()))

    def _tell_telemetry(self) -> None:
        """Tell of the host, now and from now on; of its ranks only while all is to be told.

        They never change, and what is as it was told need not be told again.
        """
        self._stop_telemetry()
        samples = [
            pb.EngineSample(engine=rank.engine, cpu_percent=0.5, rss_bytes=50 << 20, state="S")
            for rank in self.ranks.values()
        ]
        telemetry = pb.Telemetry(
            cpu_percent=3.0,
            memory_used_bytes=1 << 33,
            engines=samples if self._is_close else (),
        )
        self._stream.tell(pb.AgentEvent(telemetry=telemetry))
        pause_s = self._intervals.close_s if self._is_close else self._intervals.rare_s
        self._next_telemetry = self._loop.call_later(pause_s, self._tell_telemetry)

    def _stop_telemetry(self) -> None:
        if self._next_telemetry is not None:
            self._next_telemetry.cancel()


def _exited(rank: SimulatedRank, **how: int) -> pb.EngineExited:
    return pb.EngineExited(engine=rank.engine, pid=rank.pid, **how)
