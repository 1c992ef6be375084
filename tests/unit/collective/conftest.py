import pytest
from fakes.host_transport import communicator


@pytest.fixture
def pair():
    """The first of two ranks, and its transport."""
    return communicator()


@pytest.fixture
def comm(pair):
    return pair[0]


@pytest.fixture
def transport(pair):
    return pair[1]
