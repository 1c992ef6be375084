"""A real Ray cluster and a real Dask scheduler on loopback, and clusters of ours on their nodes.

Both have two nodes on this one machine, and end with their module: idle ones of Dask take 11 % of
a core. Where a client is not installed, its tests skip and say so.
"""

import pytest

from tests.processes.conftest import home, in_background, start, sweep, within  # noqa: F401  (fixtures for these tests, too)

from .ray_lab import RayLab


@pytest.fixture(scope="module")
def dask_lab():
    pytest.importorskip("distributed", reason="distributed is not installed: jupyter-dist[dask]")
    from .dask_lab import DaskLab

    with DaskLab() as lab:
        yield lab


@pytest.fixture
def dask(dask_lab):
    """Two hosts of Dask; after the test their workers are idle, and all are there again."""
    yield dask_lab
    dask_lab.assert_free()
    dask_lab.mend()


@pytest.fixture(scope="module")
def ray_lab():
    pytest.importorskip("ray", reason="ray is not installed: jupyter-dist[ray]")
    with RayLab() as lab:
        yield lab


@pytest.fixture
def ray(ray_lab):
    """Two nodes of Ray; after the test all that they have is free, and both are there again."""
    yield ray_lab
    ray_lab.assert_free()
    ray_lab.mend()


@pytest.fixture(scope="module")
def kubernetes_lab():
    pytest.importorskip(
        "kubernetes", reason="kubernetes is not installed: jupyter-dist[kubernetes]"
    )
    from .kubernetes_lab import KubernetesLab

    with KubernetesLab() as lab:
        yield lab


@pytest.fixture
def kubernetes(kubernetes_lab):
    """The API server; after the test no object is left there."""
    yield kubernetes_lab
    kubernetes_lab.assert_empty()
