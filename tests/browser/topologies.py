"""Made-up clusters for the tests of the picture: what a coordinator would say of them."""

from pathlib import Path
from typing import Any

import msgspec

from jupyter_dist.model.hosts.topology import (
    CollectiveView,
    EngineView,
    GpuProcess,
    GpuView,
    HostView,
    LinkGroup,
    NicView,
    Topology,
)


def show(page: Any, topology: Topology) -> None:
    """Give the page's view a new state."""
    # As text: Playwright takes seconds over each value of a large one.
    text = msgspec.json.encode(topology).decode()
    page.evaluate("text => window.model.show(JSON.parse(text))", text)


def text_of(page: Any, selector: str) -> str:
    return str(page.inner_text(selector)).strip()


def text_content(page: Any, selector: str) -> str:
    """For what is drawn: SVG has no inner text."""
    return str(page.text_content(selector))


STATES = ("starting", "idle", "busy", "collective", "hung", "lost", "left")
WAITS = "waits in all_reduce #17 for 12 s; rank 5 has not called it yet"
_RECORDED = Path(__file__).parents[1] / "data" / "topology_2x8_hgx.json"


def an_engine(
    rank: int, local_rank: int, state: str = "idle", tick: int = 0, **more: Any
) -> EngineView:
    works = state in ("busy", "collective", "hung")
    inside = state in ("collective", "hung")
    age_s = 12.4 if state == "hung" else 0.4
    numbers = state not in ("starting", "lost", "left")
    known: dict[str, Any] = {
        "rank": rank,
        "local_rank": local_rank,
        "pid": 0 if state == "starting" else 4000 + rank,
        "state": state,
        "reason": {"hung": WAITS, "lost": "killed by signal 9"}.get(state, ""),
        "beat_age_s": (rank * 0.13 + tick * 0.07) % 0.9,
        "cpu_percent": ((rank * 37 + tick * 5) % 100 if works else 0.7) if numbers else 0,
        "rss_bytes": (120 + rank * 61 + tick) * 10**6 * (9 if works else 1) if numbers else 0,
        "cell": "In[3]" if works else "",
        "busy_s": 14.2 if works else 0.0,
        "collective": a_call("all_reduce", 17, age_s, is_running=inside) if works else None,
    }
    return EngineView(**{**known, **more})


def a_call(operation: str, sequence: int, seconds: float = 0.4, **more: Any) -> CollectiveView:
    known = {"is_running": True, "site": "In[3]:7"}
    return CollectiveView(
        sequence=sequence, operation=operation, seconds=seconds, **{**known, **more}
    )


def a_host(name: str, engines: list[EngineView], **more: Any) -> HostView:
    known: dict[str, Any] = {
        "state": "up",
        "cpu_count": 32,
        "cpu_percent": 41.0,
        "memory_total_bytes": 64 * 10**9,
        "memory_used_bytes": 19 * 10**9,
    }
    return HostView(name=name, engines=tuple(engines), **{**known, **more})


def a_cluster(*hosts: HostView, **more: Any) -> Topology:
    known: dict[str, Any] = {"cluster": "demo", "state": "ready", "generation": 1, "sequence": 1}
    return Topology(hosts=hosts, **{**known, **more})


def a_gpu(index: int, **more: Any) -> GpuView:
    known: dict[str, Any] = {
        "name": "NVIDIA H200",
        "utilisation_percent": float((index * 31 + 40) % 100),
        "memory_used_bytes": (index * 13 + 9) * 10**9,
        "memory_total_bytes": 141 * 10**9,
        "power_w": 512.0,
        "power_limit_w": 700.0,
        "temperature_c": 61.0,
    }
    return GpuView(index=index, **{**known, **more})


def local(states: tuple[str, ...] = ("busy", "collective", "collective", "idle")) -> Topology:
    engines = [an_engine(i, i, state) for i, state in enumerate(states)]
    return a_cluster(a_host("laptop", engines, numa_nodes=1))


def two_hosts(tick: int = 0) -> Topology:
    first = ["collective", "collective", "hung", "collective"]
    second = ["idle", "busy", "lost", "starting"]
    engines = [an_engine(i, i, state, tick) for i, state in enumerate(first)]
    others = [an_engine(4 + i, i, state, tick) for i, state in enumerate(second)]
    others[0] = msgspec.structs.replace(others[0], beat_age_s=4.2)
    note = "ranks 0-3 wait in all_reduce #17 (In[3]:7) for 12 s; rank 5 has not called it yet"
    hosts = (a_host("node-a", engines), a_host("node-b", others))
    return a_cluster(*hosts, generation=2, sequence=tick + 1, note=note)


def three_hosts(states: tuple[str, ...] = ("collective",) * 6, note: str = "") -> Topology:
    """The lab's shape: three hosts on one network, two ranks each."""
    hosts = [
        a_host(
            f"node{'ABC'[i]}",
            [an_engine(2 * i + j, j, states[2 * i + j]) for j in range(2)],
            address=f"10.0.0.{i + 1}",
            interface="eth0",
            interface_mbps=10_000,
            nics=(NicView(name="eth0", speed_mbps=10_000),),
        )
        for i in range(3)
    ]
    return a_cluster(*hosts, note=note)


def hung() -> Topology:
    """Five wait for one, which computes."""
    note = "ranks 0-3,5 wait in all_reduce #17 (In[3]:7) for 12 s; rank 4 runs In[3]:5 and has not called it yet"
    return three_hosts(("hung", "hung", "hung", "hung", "busy", "hung"), note)


def lost() -> Topology:
    """A host is gone, and with it its ranks."""
    states = ("idle", "idle", "idle", "idle", "lost", "lost")
    whole = three_hosts(
        states,
        "ranks 4,5 are lost: host nodeC does not answer since 14:02:11; %dist_heal replaces them",
    )
    gone = msgspec.structs.replace(whole.hosts[2], state="lost")
    return msgspec.structs.replace(whole, hosts=(*whole.hosts[:2], gone))


def one_rank(state: str) -> Topology:
    return a_cluster(a_host("node-a", [an_engine(0, 0, state)]))


HGX_LINKS = (
    LinkGroup(kind="nvlink", gpus=tuple(range(8)), lanes=18, is_switched=True),
    LinkGroup(kind="NODE", gpus=(0, 1, 2, 3)),
    LinkGroup(kind="NODE", gpus=(4, 5, 6, 7)),
    LinkGroup(kind="SYS", gpus=tuple(range(8))),
)
PCIE_LINKS = (
    *(LinkGroup(kind="PIX", gpus=(i, i + 1)) for i in (0, 2, 4, 6)),
    LinkGroup(kind="NODE", gpus=(0, 1, 2, 3)),
    LinkGroup(kind="NODE", gpus=(4, 5, 6, 7)),
    LinkGroup(kind="SYS", gpus=tuple(range(8))),
)
BRIDGED_LINKS = (
    *(LinkGroup(kind="nvlink", gpus=(i, i + 1), lanes=12) for i in (0, 2, 4, 6)),
    LinkGroup(kind="NODE", gpus=(0, 1, 2, 3)),
    LinkGroup(kind="NODE", gpus=(4, 5, 6, 7)),
    LinkGroup(kind="SYS", gpus=tuple(range(8))),
)
CUBE_LINKS = tuple(
    LinkGroup(kind="nvlink", gpus=tuple(sorted((a, (a + d) % 8))), lanes=2 // d)
    for a in range(8)
    for d in (1, 2)
)


def hgx_nics() -> tuple[NicView, ...]:
    rails = [
        NicView(
            name=f"ib{i}", speed_mbps=400_000, rdma=f"mlx5_{i}", numa_node=i // 4,
            nearest_gpus=(i,), distance="PIX",
        )
        for i in range(8)
    ]  # fmt: skip
    return (NicView(name="eth0", speed_mbps=25_000, numa_node=0), *rails)


def with_gpus(links: tuple[LinkGroup, ...], ranks: int = 8, **more: Any) -> Topology:
    states = ["busy", "collective", "busy", "busy", "idle", "busy", "collective", "busy"]
    engines = [an_engine(i, i, states[i], device=i, devices=(i,)) for i in range(ranks)]
    gpus = tuple(a_gpu(i, **({} if i < ranks else {"utilisation_percent": 0.0})) for i in range(8))
    known: dict[str, Any] = {"gpus": gpus, "links": links, "numa_nodes": 2, "cpu_count": 192}
    return a_cluster(a_host("dgx-1", engines, **{**known, **more}), cluster="gpus")


def made_hgx() -> Topology:
    """Two hosts of eight GPUs: made up in the shape of the recorded ones."""
    strange = GpuProcess(pid=4711, name="python", memory_bytes=12 * 10**9)
    oddities = {3: {"xid": 79, "xid_age_s": 12.0}, 6: {"strangers": (strange,)}}
    hosts = []
    for number in range(2):
        engines = [
            an_engine(8 * number + i, i, "collective", device=i, devices=(i,)) for i in range(8)
        ]
        odd = oddities if number else {}
        gpus = tuple(a_gpu(i, **odd.get(i, {})) for i in range(8))
        hosts.append(
            a_host(
                f"hgx-{number}", engines, gpus=gpus, links=HGX_LINKS, nics=hgx_nics(), numa_nodes=2,
                cpu_count=192, address=f"10.0.0.{number + 1}", interface="eth0", interface_mbps=25_000,
                memory_total_bytes=2 * 10**12, memory_used_bytes=310 * 10**9,
            )
        )  # fmt: skip
    return a_cluster(*hosts, cluster="hgx", generation=3)


def recorded_hgx() -> Topology:
    """Two hosts of eight GPUs as NVML describes them; `made_hgx` where no recording is."""
    if not _RECORDED.exists():
        return made_hgx()
    return msgspec.json.decode(_RECORDED.read_bytes(), type=Topology)


def shared_and_several() -> Topology:
    """Ranks 0 and 1 share GPU 0; rank 2 has GPUs 1 and 2; GPU 3 has none."""
    engines = [
        an_engine(0, 0, "busy", device=0, devices=(0,)),
        an_engine(1, 1, "busy", device=0, devices=(0,)),
        an_engine(2, 2, "collective", device=1, devices=(1, 2)),
    ]
    gpus = tuple(a_gpu(i) for i in range(4))
    links = (LinkGroup(kind="PIX", gpus=(0, 1)), LinkGroup(kind="SYS", gpus=(0, 1, 2, 3)))
    return a_cluster(a_host("mixed", engines, gpus=gpus, links=links))


def many(ranks: int, tick: int = 0) -> Topology:
    hosts = []
    for number in range(ranks // 8):
        states = [
            STATES[(number * 3 + i + tick // 4) % 7 if number % 9 == 4 else 2] for i in range(8)
        ]
        engines = [an_engine(number * 8 + i, i, states[i], tick) for i in range(8)]
        hosts.append(a_host(f"node-{number:02}", engines))
    return a_cluster(*hosts, cluster="big", sequence=tick)


def many_with_gpus(ranks: int, tick: int = 0) -> Topology:
    """A large cluster of HGX hosts whose numbers all change from tick to tick."""
    hosts = []
    for number in range(ranks // 8):
        engines = [
            an_engine(
                number * 8 + i, i, "busy" if (tick + i) % 3 else "collective", tick,
                device=i, devices=(i,),
            )
            for i in range(8)
        ]  # fmt: skip
        gpus = tuple(
            a_gpu(i, utilisation_percent=float((number * 7 + i * 31 + tick * 9) % 100))
            for i in range(8)
        )
        hosts.append(
            a_host(
                f"hgx-{number:02}", engines, gpus=gpus, links=HGX_LINKS, nics=hgx_nics(),
                numa_nodes=2, cpu_percent=float((number + tick) % 100),
            )
        )  # fmt: skip
    return a_cluster(*hosts, cluster="big", sequence=tick)


def large_with_trouble(ranks: int = 4096, tick: int = 0) -> Topology:
    """A large cluster that works, but for rank 37, which is lost, and 16 that wait for rank 96."""
    inside = a_call("all_reduce", 17, 12.4 + tick, group="80-96")
    odd = {
        37: {"state": "lost", "reason": "killed by signal 9"},
        **{rank: {"state": "hung", "collective": inside} for rank in range(80, 96)},
    }
    hosts = []
    for number in range(ranks // 8):
        engines = [
            an_engine(
                rank, rank % 8, tick=tick, device=rank % 8, devices=(rank % 8,),
                **{"state": "busy", **odd.get(rank, {})},
            )
            for rank in range(8 * number, 8 * number + 8)
        ]  # fmt: skip
        odd_gpu = {"xid": 79, "xid_age_s": 3.0 + tick} if number == 45 else {}
        gpus = tuple(
            a_gpu(i, utilisation_percent=float((number * 7 + i * 31 + tick * 9) % 100), **odd_gpu)
            for i in range(8)
        )
        hosts.append(
            a_host(f"node-{number:03}", engines, gpus=gpus, links=HGX_LINKS, nics=hgx_nics())
        )
    note = "ranks 80-95 wait in all_reduce #17 for 12 s; rank 96 has not called it yet"
    return a_cluster(*hosts, cluster="big", sequence=tick, note=note)
