"""The topology as text and as static HTML."""

import re
from pathlib import Path

import msgspec
import pytest
from fakes.notebook import Page
from msgspec.structs import replace

from jupyter_dist.model.hosts.axes import Axes
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
from jupyter_dist.views.topology.snapshot import (
    GLYPHS,
    topology_html,
    topology_text,
    when_taken,
)

EVIL = '<b onclick="x">&'


def a_topology():
    inside = CollectiveView(17, "all_reduce", 12.4, True, "In[3]:7")
    engines = (
        EngineView(
            rank=0,
            local_rank=0,
            pid=41,
            state="collective",
            cpu_percent=98.2,
            rss_bytes=120 * 2**20,
            device=3,
            cell="In[3]",
            busy_s=14.0,
            collective=inside,
            beat_age_s=0.24,
        ),
        EngineView(rank=1, local_rank=1, pid=42, state="lost", reason="killed by signal 9"),
    )
    host = HostView(
        name="node-a",
        state="up",
        cpu_count=16,
        cpu_percent=34.0,
        memory_total_bytes=64 * 2**30,
        memory_used_bytes=12 * 2**30,
        gpus=(GpuView(index=3, name="H200"),),
        engines=engines,
    )
    away = HostView(name="node-b", state="lost")
    return Topology(
        cluster="demo", state="ready", generation=2, note="rank 1 is lost", hosts=(host, away)
    )


def an_evil_topology():
    inside = CollectiveView(1, EVIL, 2.0, True, EVIL)
    engine = EngineView(rank=0, local_rank=0, state=EVIL, reason=EVIL, cell=EVIL, collective=inside)
    hosts = (
        HostView(name=EVIL, state="up", gpus=(GpuView(index=0, name=EVIL),), engines=(engine,)),
        HostView(name="b", state=EVIL),
    )
    return Topology(cluster=EVIL, state=EVIL, note=EVIL, hosts=hosts)


def a_big_topology():
    hosts = []
    for number in range(16):
        states = ["busy"] * 8
        if number == 3:
            states[5] = "hung"
        engines = tuple(
            EngineView(rank=number * 8 + i, local_rank=i, state=state, reason="after rank 7")
            for i, state in enumerate(states)
        )
        hosts.append(HostView(name=f"node-{number}", state="up", engines=engines))
    return Topology(cluster="big", state="ready", hosts=tuple(hosts))


def a_machine(**more):
    """Give a host of four GPUs: one rank has two of them, one has the third."""
    engines = (
        EngineView(rank=0, local_rank=0, state="busy", device=0, devices=(0, 1)),
        EngineView(rank=1, local_rank=1, state="busy", device=2, devices=(2,)),
    )
    gpus = tuple(
        GpuView(
            index=index,
            name="H200",
            utilisation_percent=97.0,
            memory_used_bytes=118 * 2**30,
            memory_total_bytes=151 * 2**30,
        )
        for index in range(4)
    )
    given = {"name": "node-a", "state": "up", "gpus": gpus, "engines": engines}
    return Topology(cluster="demo", state="ready", hosts=(HostView(**{**given, **more}),))


def two_large_hosts():
    sample = Path(__file__).parents[3] / "data" / "topology_2x8_hgx.json"
    return msgspec.json.decode(sample.read_bytes(), type=Topology)


def words_of(page):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


@pytest.mark.parametrize(
    "topology", [a_topology(), an_evil_topology(), a_big_topology(), two_large_hosts()]
)
def test_the_html_needs_no_trust(topology):
    page = Page(topology_html(topology, "today"))
    assert page.tags <= {"div", "b", "table", "tr", "th", "td"}
    assert page.attributes <= {"style", "colspan"}


def test_names_from_outside_are_escaped():
    page = topology_html(an_evil_topology(), EVIL)
    assert "onclick" in page
    assert EVIL not in page
    assert "&lt;b onclick=&quot;x&quot;&gt;&amp;" in page


def test_the_html_says_that_it_is_not_live_and_when_it_was():
    when = when_taken("2026-01-02 03:04:05")
    assert "Snapshot of 2026-01-02 03:04:05, not live." in topology_html(a_topology(), when)
    assert "not live: the cluster is gone." in when_taken("today", "gone")
    assert "Snapshot, not live." in topology_html(a_topology())


def test_the_text_is_a_table_of_all_ranks():
    assert topology_text(a_topology()).splitlines() == [
        "cluster demo · ready · generation 2 · 1 in collective · 1 lost",
        "! rank 1 is lost",
        "",
        "node-a · CPU 34% of 16 cores · memory 12 of 64 GiB · 1 GPU H200",
        "  rank  state            doing                                               CPU   memory  device  heartbeat",
        "     0  ⇄ in collective  In[3] for 14 s; all_reduce #17 at In[3]:7 for 12 s  98%  120 MiB  GPU 3   0.2 s ago",
        "     1  ✕ lost           killed by signal 9                                    -        -  -       -",
        "",
        "node-b · lost",
    ]


def test_the_html_holds_the_same_facts_as_the_text():
    words = re.sub(r"<[^>]+>", " ", topology_html(a_topology()))
    for fact in ("rank 1 is lost", "In[3] for 14 s", "120 MiB", "GPU 3", "killed by signal 9"):
        assert fact in words


def test_above_64_ranks_only_those_that_need_attention_have_a_row():
    text = topology_text(a_big_topology())
    assert "  ranks 24-31: 7 busy, 1 hung?" in text
    assert re.search(r"^ +29 +⏳ hung\? +after rank 7", text, re.MULTILINE)
    assert not re.search(r"^ +28 ", text, re.MULTILINE)
    assert topology_html(a_big_topology()).count("after rank 7") == 1


@pytest.mark.parametrize("state", list(GLYPHS))
def test_each_state_has_a_glyph_and_a_word(state):
    engine = EngineView(rank=0, local_rank=0, state=state)
    host = HostView(name="a", state="up", engines=(engine,))
    text = topology_text(Topology(cluster="demo", hosts=(host,)))
    word = {"collective": "in collective", "hung": "hung?"}.get(state, state)
    assert f"{GLYPHS[state]} {word}" in text


def test_a_cluster_without_hosts_still_has_a_headline():
    assert topology_text(Topology(cluster="demo")) == "cluster demo · starting"


# --- machines ---


def test_the_gpus_of_a_rank_are_named_and_of_a_single_one_its_numbers():
    text = topology_text(a_machine())
    assert "GPUs 0-1  " in f"{text}  ".replace("\n", "  \n")
    assert "GPU 2 97%, 118 of 151 GiB" in text
    assert "its own" not in text, "it is not known"
    assert "  without a rank: GPU 3" in text.splitlines()


def test_a_rank_tells_what_it_uses_itself_of_its_gpus():
    one = EngineView(
        rank=0, local_rank=0, state="busy", device=2, devices=(2,), gpu_memory_bytes=38 * 2**30
    )
    both = replace(one, rank=1, local_rank=1, devices=(0, 2), gpu_memory_bytes=70 * 2**30)
    text = topology_text(a_machine(engines=(one, both)))
    assert "GPU 2 97%, 118 of 151 GiB, 38 GiB " in text
    assert "GPUs 0,2, 70 GiB " in text


def test_links_are_told_in_words_and_those_that_are_alike_together():
    links = (
        LinkGroup(kind="nvlink", gpus=(0, 1), lanes=4),
        LinkGroup(kind="nvlink", gpus=(2, 3), lanes=4),
        LinkGroup(kind="SYS", gpus=(0, 1, 2, 3)),
    )
    text = topology_text(a_machine(links=links))
    line = "  links: NVLink ×4: GPUs 0-1; 2-3 · PCIe SYS (the link between CPUs): GPUs 0-3"  # noqa: RUF001
    assert line in text.splitlines()
    switched = (LinkGroup(kind="nvlink", gpus=(0, 1, 2, 3), lanes=18, is_switched=True),)
    line = "  links: NVLink ×18 through NVSwitch: GPUs 0-3"  # noqa: RUF001
    assert line in topology_text(a_machine(links=switched)).splitlines()


def test_interfaces_are_told_with_speed_and_rdma():
    nics = (
        NicView(name="eno1", speed_mbps=25_000),
        NicView(name="eno2", is_up=False),
        NicView(name="ib0", speed_mbps=400_000, rdma="mlx5_0"),
        NicView(name="ib1", speed_mbps=400_000, rdma="mlx5_1"),
        NicView(name="wlan", speed_mbps=54),
        NicView(name="odd"),
    )
    line = (
        "  network: eno1 25 Gb/s · eno2 down · ib0 (mlx5_0), ib1 (mlx5_1) 400 Gb/s RDMA"
        " · wlan 54 Mb/s · odd"
    )
    assert line in topology_text(a_machine(nics=nics)).splitlines()


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"xid": 79, "xid_age_s": 12.0}, "Xid 79 12 s ago"),
        ({"ecc_errors": 1}, "1 uncorrected ECC error"),
        ({"ecc_errors": 2}, "2 uncorrected ECC errors"),
        ({"is_throttled": True}, "slowed down (heat or power)"),
        ({"mig": "3 instances"}, "MIG 3 instances"),
        ({"problem": "GPU is lost"}, "GPU is lost"),
        (
            {"strangers": (GpuProcess(pid=77, name="python3", memory_bytes=23 * 2**30),)},
            "used by another's python3 (pid 77, 23 GiB)",
        ),
        (
            {"strangers": tuple(GpuProcess(pid=n) for n in range(6))},
            ", ".join(
                [*(f"used by another's process (pid {n})" for n in range(4)), "and by 2 more"]
            ),
        ),
    ],
)
def test_what_is_wrong_with_a_gpu_is_a_line_of_its_own(facts, words):
    gpus = (GpuView(index=0), msgspec.structs.replace(GpuView(index=1), **facts))
    topology = a_machine(gpus=gpus)
    assert f"  ! GPU 1: {words}" in topology_text(topology).splitlines()
    assert f"GPU 1: {words}" in words_of(topology_html(topology)).replace("&#x27;", "'")
    assert not re.search("! GPU 0", topology_text(topology))


def test_old_numbers_are_said_to_be_old():
    assert "numbers are 12 s old" in topology_text(a_machine(sampled_s=12.0))
    assert "old" not in topology_text(a_machine(sampled_s=1.0))


def test_two_large_hosts_fit_into_a_page():
    topology = two_large_hosts()
    page = topology_html(topology, "today")
    assert len(page) < 40_000
    for host in topology.hosts:
        assert host.name in words_of(page)
    assert words_of(page).count("NVLink ×18 through NVSwitch: GPUs 0-7") == 2  # noqa: RUF001


def test_ranks_stand_by_their_axes_where_these_are_named():
    topology = replace(two_large_hosts(), axes=Axes(("data", "model"), (4, 4)))
    lines = topology_text(topology).splitlines()
    assert lines[2].split() == ["data", "model=0", "model=1", "model=2", "model=3", "on"]
    assert lines[3].split()[:2] == ["0", "0"]
    assert lines[3].endswith("hgx-a")
    assert "data=3" not in topology_text(topology, "")
    across = topology_text(topology, "data").splitlines()
    assert "data=3" in across[2]
    assert across[3].endswith("hgx-a, hgx-b")
    assert words_of(topology_html(topology, across="data")).count("data=3") == 1


def test_axes_that_are_not_over_these_ranks_are_not_drawn():
    for axes in (Axes(("data",), (8,)), Axes(("data",), ()), Axes(("data",), (-16,))):
        topology = replace(two_large_hosts(), axes=axes)
        assert topology_text(topology) == topology_text(two_large_hosts())
