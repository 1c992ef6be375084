"""Whole clusters on machines of tests/data, drawn by the code that draws real ones."""

import copy
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import msgspec
from fakes.recorded_nvml import RecordedNvml, build_sysfs, read_record

from jupyter_dist.coordinator.clients.snapshot import Snapshot
from jupyter_dist.coordinator.observation.verdict import HangVerdict
from jupyter_dist.coordinator.state.engine_state import EngineEvent
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.model.hosts.interfaces import Interface
from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec
from jupyter_dist.probe import nvml
from jupyter_dist.probe.gpu_wiring import link_groups
from jupyter_dist.probe.gpus import GpuWatch, gpu_addresses, gpu_links
from jupyter_dist.probe.machine import count_numa_nodes
from jupyter_dist.probe.nics import NicWatch
from jupyter_dist.protocol import host_agent_pb2 as pb

FIRST_PID = 41200
"""Of the ranks of a host, in the records."""
NOW_S = 1000.0
CELL = "In[12]"


@contextmanager
def playing(record):
    """Be on this machine; gives the folder of its /sys and its network interfaces."""
    with (
        mock.patch.dict(sys.modules, pynvml=RecordedNvml(record)),
        tempfile.TemporaryDirectory() as root,
    ):
        nvml.load.cache_clear()
        try:
            yield Path(root), build_sysfs(record, Path(root))
        finally:
            nvml.load.cache_clear()


def describe(record):
    """Give what an agent on this machine says of it: when it joins, and a second later.

    Then the bytes that each process uses on its GPUs.
    """
    names, ranks = record["process_names"], range(FIRST_PID, FIRST_PID + len(record["gpus"]))
    with playing(record) as (root, interfaces):
        watch = GpuWatch(lambda pid: pid in ranks, lambda pid: names.get(str(pid), ""))
        watch.sample(NOW_S - 94.0)
        joined = pb.Joined(
            cpu_count=192,
            memory_total_bytes=2**41,
            gpu_count=len(record["gpus"]),
            devices=[str(index) for index in range(len(record["gpus"]))],
            gpus=[pb.GpuLinks(**msgspec.structs.asdict(each)) for each in gpu_links()],
            links=msgspec.msgpack.encode(link_groups()),
            numa_nodes=count_numa_nodes(root),
        )
        nics = NicWatch(gpu_addresses(), root).sample(interfaces)
        telemetry = pb.Telemetry(
            cpu_percent=23.4,
            memory_used_bytes=412 * 10**9,
            gpus=msgspec.msgpack.encode(watch.sample(NOW_S)),
            nics=msgspec.msgpack.encode(nics),
            age_s=0.4,
        )
    return joined, telemetry, watch.memory_by_process


def two_hgx():
    """Two HGX hosts: one as it should be, the other one with a few troubles."""
    troubled = read_record("hgx_h200")
    troubled["events"].append({"gpu": 2, "xid": 94})
    troubled["gpus"][2]["nvmlDeviceGetTotalEccErrors"] = 1
    healthy = copy.deepcopy(troubled)
    healthy["events"].clear()
    healthy["gpus"][2]["nvmlDeviceGetTotalEccErrors"] = 0
    healthy["gpus"][5]["nvmlDeviceGetCurrentClocksEventReasons"] = 0
    healthy["gpus"][5]["nvmlDeviceGetTemperature"] = 60
    for question in ("MemoryInfo", "UtilizationRates", "PowerUsage", "Temperature"):
        answers = [gpu[f"nvmlDeviceGet{question}"] for gpu in healthy["gpus"]]
        healthy["gpus"][7][f"nvmlDeviceGet{question}"] = answers[0]
    healthy["gpus"][7]["nvmlDeviceGetComputeRunningProcesses"].pop()
    return {"hgx-a": healthy, "hgx-b": troubled}


def draw(records):
    """Draw a cluster with a rank for each GPU of these hosts, in the middle of a cell.

    All of them wait in a collective but the last rank, which still computes.
    """
    hosts = tuple(HostSpec(name, len(record["gpus"])) for name, record in records.items())
    roster = Roster(ClusterSpec(name="llm", hosts=hosts))
    told = {name: describe(record) for name, record in records.items()}
    for number, (name, (joined, *_)) in enumerate(told.items(), 1):
        joined.home_address = "10.0.0.10"
        roster.take_joined(name, joined)
        address = f"10.1.{number // 250}.{number % 250}"
        roster.hosts[name].interface = Interface("ib0", address, 16, 400_000)
    roster.seat()
    for engine in roster.engines:
        engine.apply(EngineEvent.JOINED)
        engine.pid = FIRST_PID + engine.info.local_rank
        roster[engine.info.rank].start_work(CELL, NOW_S - 41.3)
        _, telemetry, memory = told[engine.info.host]
        telemetry.engines.append(sample_of(engine, roster.world_size, memory))
    for name, (_, telemetry, _) in told.items():
        roster.take_telemetry(name, telemetry, NOW_S)
    ages_s = {rank: rank * 37 % 500 / 1000 for rank in range(roster.world_size)}
    return Snapshot(roster).draw("ready", 1, HangVerdict(), ages_s, NOW_S)


def sample_of(engine, world_size, memory):
    """What the agent sees of a rank; the last one is not in the collective of the others."""
    rank = engine.info.rank
    is_last = rank == world_size - 1
    last = pb.Collective(
        sequence=213 if is_last else 214,
        operation="all_reduce",
        seconds=0.021 if is_last else 0.8,
        is_running=not is_last,
        site=f"{CELL}:7",
        arguments="bfloat16[8192, 8192], sum",
        root=-1,
    )
    return pb.EngineSample(
        engine=engine.name,
        cpu_percent=100.0 - rank % 4,
        rss_bytes=(9_700 + rank * 13) * 10**6,
        gpu_memory_bytes=memory.get(engine.pid, 0),
        collective=last,
    )


def write(topology):
    """Write a topology as a browser gets it, in lines that a person can read."""
    return msgspec.json.format(msgspec.json.encode(topology), indent=1) + b"\n"
