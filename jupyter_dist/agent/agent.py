"""What an agent does once it knows home: start and watch engines, carry signals, observe."""

import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import psutil

from jupyter_dist.agent.code.code_receiver import CodeReceiver
from jupyter_dist.agent.code.pushed_objects import PushedObjects
from jupyter_dist.agent.connection.coordinator_stream import CoordinatorStream
from jupyter_dist.agent.connection.dial import Found
from jupyter_dist.agent.engines.engine_processes import EngineTable
from jupyter_dist.agent.engines.exit_evidence import Ended
from jupyter_dist.agent.engines.record_reader import RecordReader
from jupyter_dist.agent.engines.room_for_ranks import find_lack
from jupyter_dist.agent.engines.signaller import Signaller
from jupyter_dist.agent.engines.stack_dumper import StackDumper
from jupyter_dist.agent.engines.wishes import device_wishes, interface_wishes, thread_wishes
from jupyter_dist.agent.engines.zygote_process import ZygoteProcess
from jupyter_dist.agent.host.preemption_watch import PreemptionWatch
from jupyter_dist.agent.host.ras_reader import RasReader
from jupyter_dist.agent.host.service_processes import Services
from jupyter_dist.agent.host.telemetry import Telemetry, plan_looks
from jupyter_dist.errors import StartFailed
from jupyter_dist.launch.launcher import JoinTicket
from jupyter_dist.launch.processes.open_files import usable_cores
from jupyter_dist.model.hosts.addresses import join_address
from jupyter_dist.model.hosts.rank import RankInfo
from jupyter_dist.model.spec.devices import VISIBLE, visible_devices
from jupyter_dist.probe.gpu_wiring import link_groups
from jupyter_dist.probe.gpus import count_gpus, divided_gpus, gpu_links, gpu_problem
from jupyter_dist.probe.host_report import machine_id
from jupyter_dist.probe.machine import count_numa_nodes
from jupyter_dist.probe.network import list_interfaces
from jupyter_dist.probe.software import list_versions, version_of
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.births import EngineConfig, ZygoteEvent, beats_path
from jupyter_dist.protocol.credentials import Credentials, KeyPair
from jupyter_dist.version import WIRE, __version__

ZYGOTE_END_TIMEOUT_S = 5.0


class Agent:
    """One host's hands."""

    def __init__(
        self,
        ticket: JoinTicket,
        found: Found,
        directories: tuple[Path, Path],
        zygote: ZygoteProcess,
        on_admitted: Callable[[str], object],
    ) -> None:
        """Call `on_admitted` with the host's name once the coordinator has taken us in."""
        self._ticket, self._on_admitted = ticket, on_admitted
        self._found = found
        self._run_dir, self._memory_dir = directories
        self._zygote = zygote
        self._pushed = PushedObjects(self._memory_dir)
        self._engines = EngineTable(self._run_dir, self._memory_dir)
        self._all_ended = threading.Condition()
        self._over = threading.Event()
        self._stream = CoordinatorStream(ticket, found.address)
        self._code = CodeReceiver(self._run_dir, self._stream.tell, self._engines.living)
        self._records = RecordReader(self._engines, self._stream.tell)
        self._signaller = Signaller(self._engines, self._stream.tell)
        self._stacks = StackDumper(self._engines, self._run_dir, self._stream.tell)
        self._ras = RasReader(self._run_dir, self._stream.tell)
        intervals = plan_looks(ticket.sample_interval_s, ticket.hosts)
        self._telemetry = Telemetry(self._engines, self._stream.tell, intervals)
        self._services = Services(self._run_dir, self._stream.tell)
        self._preemption = PreemptionWatch(self._stream.tell, self._stream.hang_up)
        self._jaxlib = version_of("jaxlib")  # once for all ranks, while the zygote wakes
        self._host = ""
        """What the cluster calls this host, once it has taken us in."""
        signal.signal(signal.SIGTERM, lambda *_: self._preemption.on_terminate())
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, lambda *_: self._stream.hang_up())

    def introduce(self, host: str, slots: int) -> None:
        """Say what this host is; an agent that joins on its own may wish both."""
        gpu_count = count_gpus()
        joined = pb.Joined(
            host=host or socket.gethostname(),
            hostname=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            cpu_count=usable_cores(),
            memory_total_bytes=psutil.virtual_memory().total,
            log_dir=str(self._run_dir),
            gpu_count=gpu_count,
            slots=slots,
            wire=WIRE,
            machine=machine_id(),
            python=sys.executable,
            versions=list_versions(of_system=gpu_count > 0),
            interfaces=[pb.Interface(**msgspec.structs.asdict(each)) for each in list_interfaces()],
            home_address=self._found.address,
            local_address=self._found.local_address,
            failed_addresses=self._found.failed,
            devices=visible_devices((), os.environ.get(VISIBLE), gpu_count),
            gpus=[pb.GpuLinks(**msgspec.structs.asdict(each)) for each in gpu_links()],
            gpu_problem=gpu_problem(),
            links=msgspec.msgpack.encode(link_groups()),
            numa_nodes=count_numa_nodes(),
        )
        self._stream.tell(pb.AgentEvent(joined=joined))

    def serve(self) -> None:
        """Attend the coordinator until it says stop, or is gone.

        Raises StartFailed when it does not want this agent.
        """
        self._zygote.listen(self._on_zygote_event, self._on_zygote_end)
        self._telemetry.start()
        for command in self._stream.commands():
            try:
                self._obey(command)
            except Exception as error:  # noqa: BLE001  (one order must not cost the host its ranks)
                traceback.print_exc()
                self._stream.tell(_failed(command.WhichOneof("command") or "", error))
        self._end_watch()
        self._preemption.close()
        self._services.close()
        self._stream.close()
        self._engines.evidence.close()
        if self._stream.refusal:
            raise StartFailed(self._stream.refusal)

    def _obey(self, command: pb.AgentCommand) -> None:
        match command.WhichOneof("command"):
            case "admitted":
                self._host = command.admitted.host
                self._on_admitted(self._host)
            case "start_engines":
                self._start_engines(command.start_engines)
            case "send_signal":
                self._signaller.obey(command.send_signal)
            case "place_chunk" | "remove_placed":
                self._place(command)
            case "code_manifest" | "code_chunk" | "commit_code":
                self._code.obey(command)
            case "read_records" | "dump_stacks" | "read_ras" | "observe":
                self._look(command)
            case "start_service" | "end_service":
                self._services.obey(command)
            case "heed_notices" | "let_go":
                self._preemption.obey(command)
            case "stop":
                self._preemption.close()
                self._stop_engines(command.stop.grace_s)
                self._stream.say_last(pb.AgentEvent(all_stopped=pb.AllStopped()))

    def _place(self, command: pb.AgentCommand) -> None:
        """Take in a piece of a large object, or forget one that is placed."""
        match command.WhichOneof("command"):
            case "place_chunk":
                placed = self._pushed.add(command.place_chunk)
                if placed is not None:
                    self._stream.tell(placed)
            case "remove_placed":
                self._pushed.remove(command.remove_placed.request_id)

    def _look(self, command: pb.AgentCommand) -> None:
        """Tell what engines have recorded or do, what NCCL knows of them, or look more closely."""
        match command.WhichOneof("command"):
            case "read_records":
                self._records.obey(self._host, command.read_records)
            case "dump_stacks":
                self._stacks.obey(command.dump_stacks)
            case "read_ras":
                self._ras.obey(command.read_ras)
            case "observe":
                self._telemetry.obey(command.observe)

    def _start_engines(self, command: pb.StartEngines) -> None:
        cwd = self._working_directory(command)
        if cwd is None or not self._has_room(command):
            return
        wishes = {**interface_wishes(command.interface), **self._ras.wishes(command.env)}
        env = {**thread_wishes(), **wishes, **command.env}
        self._services.live_like(command.bind_host, env)
        self._preemption.ask(command.preempt_command)
        births = [self._birth(command, place, env, cwd) for place in command.places]
        for place in command.places:
            self._engines.evidence.place(place.engine, place.device)
        self._warn_of_mig([env.get(VISIBLE, place.device) for place in command.places])
        try:
            self._zygote.start_engines(births)
        except BrokenPipeError:
            self._on_zygote_end()

    def _has_room(self, command: pb.StartEngines) -> bool:
        """Return whether its ranks can live here; tell what there is too little of."""
        places = command.places
        lack = find_lack(len(places), places[0].world_size) if places else ""
        if lack:
            self._stream.tell(pb.AgentEvent(start_problem=pb.StartProblem(reason=lack)))
        return not lack

    def _birth(
        self, command: pb.StartEngines, place: pb.RankPlace, env: dict[str, str], cwd: str
    ) -> EngineConfig:
        """Return what the zygote must know to start the engine at this place."""
        own = KeyPair(command.own_public_key, command.own_secret_key)
        engines_address, beats_address = self._home_endpoints(command.home_path)
        return EngineConfig(
            engine=place.engine,
            info=RankInfo(
                place.rank,
                place.world_size,
                place.local_rank,
                place.local_world_size,
                place.host_rank,
                place.host,
                place.device,
            ),
            generation=command.generation,
            cluster=self._ticket.cluster,
            engines_address=engines_address,
            beats_address=beats_address,
            credentials=Credentials(command.server_public_key, own),
            run_dir=str(self._run_dir),
            memory_dir=str(self._memory_dir),
            bind_host=command.bind_host,
            communicator=command.communicator,
            collective_timeout_s=command.collective_timeout_s,
            lost_after_s=self._ticket.lost_after_s,
            coordinator_pid=self._ticket.pid_on(machine_id()),
            jax=command.jax,
            jaxlib=self._jaxlib,
            save_on_preempt=command.save_on_preempt,
            relay=command.relay,
            memory_proof=self._ticket.memory_proof,
            env={**env, **device_wishes(place.device, command.env)},
            cwd=cwd,
        )

    def _warn_of_mig(self, shares: Sequence[str]) -> None:
        """Say which of the engines' GPUs are divided and given whole; they see a part of them."""
        for index in divided_gpus(device for share in shares for device in share.split(",")):
            text = (
                f"GPU {index} is in MIG mode, and CUDA shows its first instance only: give "
                "CUDA_VISIBLE_DEVICES=MIG-… there (nvidia-smi -L lists them)"
            )
            self._stream.tell(pb.AgentEvent(note=pb.Note(text=text)))

    def _home_endpoints(self, path: str) -> tuple[str, str]:
        """Return the coordinator's addresses for engines and their beats, as ZeroMQ takes them."""
        if path:
            return f"ipc://{path}", f"ipc://{beats_path(path)}"
        address, ports = self._found.address, self._ticket.ports
        engines, beats = (join_address(address, port) for port in (ports.engines, ports.beats))
        return f"tcp://{engines}", f"tcp://{beats}"

    def _working_directory(self, command: pb.StartEngines) -> str | None:
        """Return the directory asked for, or home where another will do; None when it must be."""
        if os.access(command.cwd, os.X_OK) and os.path.isdir(command.cwd):
            return command.cwd
        if command.is_cwd_required:
            problem = pb.StartProblem(reason=f"working directory {command.cwd!r} is not there")
            self._stream.tell(pb.AgentEvent(start_problem=problem))
            return None
        home = os.path.expanduser("~")
        note = pb.Note(text=f"{command.cwd} is not there; its ranks work in {home}")
        self._stream.tell(pb.AgentEvent(note=note))
        return home

    def _on_zygote_event(self, event: ZygoteEvent) -> None:
        match event.kind:
            case "started":
                for engine, pid in event.pids.items():
                    self._engines.add(engine, pid)
                started = pb.EnginesStarted(pids=event.pids)
                self._stream.tell(pb.AgentEvent(engines_started=started))
            case "exited":
                self._engines.remove(event.engine)
                ended = Ended(event.pid, event.exit_code, event.signal, event.peak_bytes)
                exited = self._describe_exit(event.engine, ended)
                if event.reason:  # there was no process that could have written it
                    exited.stderr_tail = event.reason.encode("utf-8", "backslashreplace")
                self._stream.tell(pb.AgentEvent(engine_exited=exited))
                with self._all_ended:
                    self._all_ended.notify_all()

    def _describe_exit(self, engine: str, ended: Ended) -> pb.EngineExited:
        """Describe an end, without evidence where that cannot be told: the end must be."""
        try:
            return self._engines.exit_event(engine, ended)
        except Exception:  # noqa: BLE001  (it was gathered from what processes may have damaged)
            traceback.print_exc()
            return ended.event(engine)

    def _on_zygote_end(self) -> None:
        """Report every engine as gone: they end with the zygote, and this agent is of no use."""
        if self._over.is_set():
            return
        for engine in self._engines.living():
            self._engines.remove(engine)
            exited = self._describe_exit(engine, Ended(signal=signal.SIGKILL))
            self._stream.tell(pb.AgentEvent(engine_exited=exited))
        problem = pb.StartProblem(reason="the engines' parent process (zygote) has ended")
        self._stream.say_last(pb.AgentEvent(start_problem=problem))

    def _end_watch(self) -> None:
        self._over.set()
        self._telemetry.end()

    def _stop_engines(self, grace_s: float) -> None:
        """Give engines time to leave on their own, then end what is left."""
        with self._all_ended:
            self._all_ended.wait_for(lambda: not self._engines.living(), grace_s)
        self._end_watch()
        self._zygote.end(ZYGOTE_END_TIMEOUT_S)
        self._services.close()


def _failed(order: str, error: Exception) -> pb.AgentEvent:
    """Tell that an order could not be carried out."""
    why = f"{type(error).__name__}: {error}".encode("utf-8", "backslashreplace").decode()
    if order == "start_engines":
        return pb.AgentEvent(start_problem=pb.StartProblem(reason=f"no engine was started: {why}"))
    return pb.AgentEvent(note=pb.Note(text=f"its agent could not carry out {order}: {why}"))
