import pytest

from jupyter_dist.coordinator.cells.pull import Pull


@pytest.fixture
def begin_pull(cluster):
    """Start a pull of the client `me`."""

    def start(request):
        pull = Pull(b"me", request, request.request_id, cluster.parts)
        pull.start(0.0)
        return pull

    return start
