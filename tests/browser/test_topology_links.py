"""Links, networks and running collectives in the topology view, with clusters that are made up."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from jupyter_dist.model.hosts.topology import LinkGroup, NicView

from .topologies import (
    BRIDGED_LINKS,
    CUBE_LINKS,
    HGX_LINKS,
    PCIE_LINKS,
    a_call,
    a_cluster,
    a_host,
    an_engine,
    hung,
    local,
    made_hgx,
    show,
    text_content,
    text_of,
    three_hosts,
    with_gpus,
)

pytestmark = pytest.mark.browser

OpenView = Callable[..., Any]
replace = msgspec.structs.replace


def heads(page: Any) -> list[bool]:
    """Tell of each message on the page whether its arrowhead is of its own drawing."""
    script = """[...document.querySelectorAll('.jd-message')].map(path => {
      const id = path.getAttribute('marker-end').match(/^url\\(#(.+)\\)$/)[1];
      return document.getElementById(id)?.closest('.jd-drawing') === path.closest('.jd-drawing');
    })"""
    found: list[bool] = page.evaluate(script)
    return found


@pytest.mark.parametrize(
    ("links", "labels"),
    [
        (HGX_LINKS, ["NVLink ×18 all-to-all"]),  # noqa: RUF001
        (PCIE_LINKS, ["PIX", "PIX", "NODE", "PIX", "PIX", "NODE", "SYS"]),
        (BRIDGED_LINKS, ["NVLink ×12", "NVLink ×12", "NODE"] * 2 + ["SYS"]),  # noqa: RUF001
        (CUBE_LINKS, []),
        ((), []),
    ],
)
def test_each_group_of_gpus_that_are_joined_alike_is_one_line(
    open_view: OpenView, links: tuple[LinkGroup, ...], labels: list[str]
) -> None:
    page = open_view(with_gpus(links))
    assert page.locator(".jd-link-label").all_text_contents() == labels
    assert page.locator(".jd-route").count() == len(labels)


def test_overlapping_pairs_are_arcs_as_thick_as_they_have_lanes(open_view: OpenView) -> None:
    page = open_view(with_gpus(CUBE_LINKS))
    titles = page.locator(".jd-link title").all_text_contents()
    assert len(titles) == 16
    assert titles[0] == "NVLink ×2: GPUs 0-1"  # noqa: RUF001
    widths = page.evaluate(
        "[...document.querySelectorAll('.jd-link')].map(each => getComputedStyle(each).strokeWidth)"
    )
    assert len(set(widths)) == 2
    assert "NVLink ×2: 8 pairs" in text_content(page, ".jd-caption")  # noqa: RUF001


def test_pcie_beside_nvlink_is_said_and_not_drawn(open_view: OpenView) -> None:
    page = open_view(with_gpus(HGX_LINKS))
    page.hover(".jd-host-head")
    said = text_of(page, ".jd-detail")
    assert "NVLink ×18 (through NVSwitch): GPUs 0-7" in said  # noqa: RUF001
    assert "PCIe NODE (one NUMA node): GPUs 0-3; 4-7" in said


def test_ports_tell_speed_and_rdma_and_alike_ones_share_a_port(open_view: OpenView) -> None:
    page = open_view(made_hgx())
    ports = page.locator(".jd-host >> nth=0").locator(".jd-port")
    assert ports.locator("text").all_text_contents() == ["eth0 25G", "8 × 400G"]  # noqa: RUF001
    assert [port.locator(".jd-rdma").count() for port in ports.all()] == [0, 1]
    assert ports.nth(0).get_attribute("data-in-use") is not None
    titles = (ports.nth(1).locator("title").text_content() or "").split("\n")
    assert titles[2] == "ib2, RDMA mlx5_2, 400 Gb/s, NUMA node 0, nearest GPU 2 by one PCIe switch"


def test_a_port_that_is_down_says_so(open_view: OpenView) -> None:
    page = open_view()
    nics = (NicView(name="eth0", speed_mbps=1000), NicView(name="eth1", is_up=False))
    show(page, a_cluster(a_host("node-a", [an_engine(0, 0, "idle")], nics=nics)))
    assert page.locator(".jd-port text").all_text_contents() == ["eth0 1G", "eth1 down"]
    assert page.locator(".jd-port[data-down]").count() == 1


def test_the_network_between_hosts_is_named_by_interface_and_speed(open_view: OpenView) -> None:
    page = open_view(three_hosts())
    label = page.locator(".jd-link-label[data-kind=network]")
    assert label.text_content() == "eth0 · 10 Gb/s"
    whole = three_hosts()
    slow = replace(whole.hosts[2], interface="ens5", interface_mbps=1000)
    show(page, replace(whole, hosts=(*whole.hosts[:2], slow)))
    assert label.text_content() == "eth0, ens5 · 1 Gb/s to 10 Gb/s"
    show(page, local())
    assert page.locator(".jd-network").count() == 0


def lit(page: Any) -> list[str]:
    return page.evaluate("[...document.querySelectorAll('.jd-flow')].map(each => each.dataset.of)")


def test_edges_light_up_while_ranks_are_in_the_same_collective(open_view: OpenView) -> None:
    page = open_view(three_hosts())
    # The two ranks of each host, and the network between the hosts.
    assert lit(page) == ["all_reduce 17 "] * 4
    style = page.evaluate(
        """() => { const { animationName, strokeDasharray } = getComputedStyle(
             document.querySelector('.jd-flow')); return [animationName, strokeDasharray]; }"""
    )
    assert style == ["jd-flow", "5px, 5px"]
    show(page, three_hosts(("busy", "busy", "collective", "collective", "idle", "idle")))
    assert lit(page) == ["all_reduce 17 "]
    show(page, three_hosts(("collective", *["busy"] * 5)))
    assert lit(page) == []


def test_two_groups_light_up_by_themselves(open_view: OpenView) -> None:
    page = open_view()
    calls = [a_call("all_reduce", 4, group=group) for group in ("0-1", "0-1", "2-3", "2-3")]
    engines = [an_engine(i, i, "collective", collective=call) for i, call in enumerate(calls)]
    show(page, a_cluster(a_host("node-a", engines)))
    assert lit(page) == ["all_reduce 4 0-1", "all_reduce 4 2-3"]


def test_a_call_of_an_earlier_cell_lights_nothing(open_view: OpenView) -> None:
    page = open_view()
    calls = [a_call("all_reduce", 4), a_call("all_reduce", 4, is_earlier=True)]
    engines = [an_engine(i, i, "collective", collective=call) for i, call in enumerate(calls)]
    show(page, a_cluster(a_host("node-a", engines)))
    assert lit(page) == []


def test_a_message_is_an_arrow_from_sender_to_receiver(open_view: OpenView) -> None:
    page = open_view()
    calls = [a_call("send", 1, root=2), None, a_call("recv", 1, root=3), None]
    states = ["collective" if call else "busy" for call in calls]
    engines = [
        an_engine(i, i, states[i], collective=call, device=None) for i, call in enumerate(calls)
    ]
    show(page, a_cluster(a_host("node-a", engines)))
    assert lit(page) == ["0 to 2", "3 to 2"]
    assert heads(page) == [True, True]


def test_arrows_keep_their_heads_while_another_view_of_the_page_is_hidden(
    open_view: OpenView,
) -> None:
    page = open_view()
    calls = [a_call("send", 1, root=1), None]
    states = ["collective", "busy"]
    engines = [an_engine(i, i, states[i], collective=call) for i, call in enumerate(calls)]
    state = a_cluster(a_host("node-a", engines))
    show(page, state)
    # Each view has a copy of the modules, as two widgets of a notebook have.
    page.evaluate(
        """async state => { const { createDrawing } = await import('/drawing.js');
          document.getElementById('place').style.display = 'none';
          const place = document.body.appendChild(document.createElement('div'));
          createDrawing(place, () => {}).update(state, 900); }""",
        msgspec.to_builtins(state),
    )
    assert heads(page) == [True, True]
    assert page.evaluate("document.querySelectorAll('marker').length") == 2
    identifiers = page.evaluate("[...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(identifiers) == len(set(identifiers))


def test_a_peer_is_counted_as_its_communicator_counts(open_view: OpenView) -> None:
    page = open_view()
    engines = [
        an_engine(0, 0, "collective", collective=a_call("send", 1, root=1, group="0,2")),
        an_engine(1, 1, "busy"),
        an_engine(2, 2, "busy"),
    ]
    show(page, a_cluster(a_host("node-a", engines)))
    assert lit(page) == ["0 to 2"]


def test_a_hang_stops_the_flow_and_marks_who_is_awaited(open_view: OpenView) -> None:
    page = open_view(hung())
    awaited = "[data-awaited=yes]"
    assert page.locator(awaited).get_attribute("data-rank") == "4"
    assert text_content(page, f"{awaited} .jd-doing") == "awaited · 14 s"
    assert "awaited by" in page.get_attribute(awaited, "aria-label")
    outline = "getComputedStyle(document.querySelector('%s .jd-awaited')).strokeDasharray"
    assert page.evaluate(outline % awaited) == "2px, 2.4px"
    flow = page.locator(".jd-flow").first
    assert flow.get_attribute("data-hung") is not None
    assert flow.evaluate("node => getComputedStyle(node).animationName") == "none"
    show(page, replace(hung(), note=""))
    assert page.locator(awaited).count() == 0
