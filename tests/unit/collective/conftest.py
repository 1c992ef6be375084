import pytest
from fakes.host_transport import communicator


@pytest.fixture
def pair():
    """The first of two ranks, and its transport."""
    return communicator()
