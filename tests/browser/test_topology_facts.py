"""What the detail line of the topology view says of ranks."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from jupyter_dist.model.hosts.axes import lay_out

from .topologies import a_cluster, a_host, an_engine, recorded_hgx, show

pytestmark = pytest.mark.browser


def detail_of(page: Any, rank: int) -> str:
    page.hover(f'[data-rank="{rank}"]')
    return " ".join(page.inner_text(".jd-detail").split())


def test_a_rank_tells_what_its_process_uses_of_its_gpus(open_view: Callable[..., Any]) -> None:
    page = open_view(recorded_hgx())
    assert "uses 109 GiB of GPU memory" in detail_of(page, 1)
    show(page, a_cluster(a_host("node-a", [an_engine(0, 0, "busy")])))
    assert "of GPU memory" not in detail_of(page, 0), "it is not known"


def test_only_a_rank_that_is_there_has_a_heartbeat(open_view: Callable[..., Any]) -> None:
    page = open_view()
    engines = [an_engine(0, 0, "lost"), an_engine(1, 1, "idle")]
    show(page, a_cluster(a_host("node-a", engines)))
    assert "signal 9" in detail_of(page, 0)
    assert "heartbeat" not in detail_of(page, 0)
    assert "heartbeat" in detail_of(page, 1)


def test_a_rank_tells_its_coordinates_where_axes_are_named(open_view: Callable[..., Any]) -> None:
    page = open_view()
    cluster = a_cluster(a_host("node-a", [an_engine(rank, rank, "idle") for rank in range(4)]))
    show(page, cluster)
    assert detail_of(page, 2).startswith("rank 2 · on node-a")
    show(page, replace(cluster, axes=lay_out([("data", 2), ("model", 2)], 4)))
    assert detail_of(page, 2).startswith("rank 2 · data=1, model=0 · on node-a")
