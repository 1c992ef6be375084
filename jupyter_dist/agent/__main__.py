"""One agent's whole life: wake the zygote, dial home, start and watch engines, leave nothing."""

import argparse
import contextlib
import os
import shutil
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import psutil

from jupyter_dist.agent.engines import EngineTable
from jupyter_dist.agent.home import Home
from jupyter_dist.agent.placements import Placements
from jupyter_dist.agent.zygote_process import ZygoteProcess, describe_birth, thread_wishes
from jupyter_dist.launch.base import Invitation
from jupyter_dist.launch.lifeline import die_with_parent
from jupyter_dist.launch.private_dir import make_memory_dir, make_private_dir
from jupyter_dist.model.rank import RankInfo
from jupyter_dist.probe.gpus import sample_gpus
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.version import __version__

TELEMETRY_INTERVAL_S = 0.5
ZYGOTE_END_TIMEOUT_S = 5.0


class Agent:
    """One host's hands."""

    def __init__(
        self, invitation: Invitation, run_dir: Path, memory_dir: Path, zygote: ZygoteProcess
    ) -> None:
        self._invitation = invitation
        self._run_dir = run_dir
        self._memory_dir = memory_dir
        self._zygote = zygote
        self._placements = Placements(memory_dir)
        self._engines = EngineTable(run_dir, memory_dir)
        self._all_ended = threading.Condition()
        self._over = threading.Event()
        self._home = Home(invitation)
        signal.signal(signal.SIGTERM, lambda *_: self._home.hang_up())

    def serve(self) -> None:
        """Attend the coordinator until it says stop, or is gone."""
        self._home.tell(pb.AgentEvent(joined=self._introduction()))
        self._zygote.listen(self._on_zygote_event, self._on_zygote_end)
        threading.Thread(target=self._send_telemetry, name="telemetry", daemon=True).start()
        for command in self._home.commands():
            match command.WhichOneof("command"):
                case "start_engines":
                    self._start_engines(command.start_engines)
                case "send_signal":
                    self._send_signal(command.send_signal)
                case "place_chunk":
                    placed = self._placements.add(command.place_chunk)
                    if placed is not None:
                        self._home.tell(pb.AgentEvent(placed=placed))
                case "remove_placed":
                    self._placements.remove(command.remove_placed.request_id)
                case "stop":
                    self._stop_engines(command.stop.grace_s)
                    self._home.say_last(pb.AgentEvent(all_stopped=pb.AllStopped()))
        self._over.set()
        self._home.close()

    def _introduction(self) -> pb.Joined:
        return pb.Joined(
            host=self._invitation.host,
            hostname=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            cpu_count=psutil.cpu_count() or 1,
            memory_total_bytes=psutil.virtual_memory().total,
            log_dir=str(self._run_dir),
        )

    def _start_engines(self, command: pb.StartEngines) -> None:
        invitation = self._invitation
        births = [
            describe_birth(
                RankInfo(
                    place.rank,
                    place.world_size,
                    place.local_rank,
                    place.local_world_size,
                    place.host_rank,
                    place.host,
                ),
                generation=command.generation,
                cluster=invitation.cluster,
                engines_address=invitation.engines_address,
                beats_address=invitation.beats_address,
                credentials=msgspec.to_builtins(invitation.engine_credentials),
                run_dir=str(self._run_dir),
                memory_dir=str(self._memory_dir),
                bind_host=invitation.bind_host,
                communicator=invitation.communicator,
                collective_timeout_s=invitation.collective_timeout_s,
                env={**thread_wishes(), **invitation.env},
                cwd=invitation.cwd,
            )
            for place in command.places
        ]
        try:
            self._zygote.start_engines(births)
        except BrokenPipeError:
            self._on_zygote_end()

    def _send_signal(self, command: pb.SendSignal) -> None:
        reached = self._engines.send_signal(list(command.ranks), command.signal)
        event = pb.SignalSent(request_id=command.request_id, ranks=reached)
        self._home.tell(pb.AgentEvent(signal_sent=event))

    def _on_zygote_event(self, event: dict[str, Any]) -> None:
        match event["kind"]:
            case "started":
                self._engines.add(event["rank"], event["pid"])
                started = pb.EngineStarted(rank=event["rank"], pid=event["pid"])
                self._home.tell(pb.AgentEvent(engine_started=started))
            case "exited":
                self._engines.remove(event["rank"])
                exited = self._engines.exit_event(
                    event["rank"], event["pid"], event["exit_code"], event["signal"]
                )
                self._home.tell(pb.AgentEvent(engine_exited=exited))
                with self._all_ended:
                    self._all_ended.notify_all()

    def _on_zygote_end(self) -> None:
        """Report every engine as gone: they end with the zygote."""
        if self._over.is_set():
            return
        for rank in self._engines.ranks():
            self._engines.remove(rank)
            exited = self._engines.exit_event(rank, 0, 0, signal.SIGKILL)
            self._home.tell(pb.AgentEvent(engine_exited=exited))
        problem = pb.StartProblem(reason="the engines' parent process (zygote) has ended")
        self._home.tell(pb.AgentEvent(start_problem=problem))

    def _stop_engines(self, grace_s: float) -> None:
        """Give engines time to leave by themselves, then end what is left."""
        with self._all_ended:
            self._all_ended.wait_for(lambda: not self._engines.ranks(), grace_s)
        self._over.set()
        self._zygote.end(ZYGOTE_END_TIMEOUT_S)

    def _send_telemetry(self) -> None:
        while not self._over.wait(TELEMETRY_INTERVAL_S):
            memory = psutil.virtual_memory()
            sample = pb.Telemetry(
                cpu_percent=psutil.cpu_percent(),
                memory_used_bytes=memory.total - memory.available,
                engines=self._engines.sample(),
                gpus=[pb.GpuSample(**msgspec.structs.asdict(gpu)) for gpu in sample_gpus()],
            )
            self._home.tell(pb.AgentEvent(telemetry=sample))


def main() -> None:
    """Serve one cluster on this host; the invitation comes on stdin."""
    parser = argparse.ArgumentParser(prog="jupyter_dist.agent")
    parser.add_argument("--start-method", default="fork", choices=("fork", "spawn"))
    parser.add_argument("--parent-pid", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.parent_pid:
        die_with_parent(arguments.parent_pid, signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    directories: list[Path] = []
    zygote = None
    try:
        directories.append(run_dir := make_private_dir())
        directories.append(memory_dir := make_memory_dir())
        (run_dir / "ipython").mkdir()
        zygote = ZygoteProcess(run_dir, arguments.start_method)
        line = sys.stdin.buffer.readline()
        if line:  # else the coordinator ended before it could invite us
            invitation = msgspec.json.decode(line, type=Invitation)
            Agent(invitation, run_dir, memory_dir, zygote).serve()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not break the cleaning
        if zygote is not None:
            zygote.end(ZYGOTE_END_TIMEOUT_S)
        for directory in directories:
            with contextlib.suppress(OSError):
                _remove(directory)


def _remove(directory: Path) -> None:
    """Remove the directory; engines that are just ending may still write into it for a moment."""
    deadline_s = time.monotonic() + ZYGOTE_END_TIMEOUT_S
    while True:
        try:
            shutil.rmtree(directory)
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline_s:
                raise
            continue
        return


if __name__ == "__main__":
    main()
