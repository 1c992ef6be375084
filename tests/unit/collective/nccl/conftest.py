import pytest
from fakes.nccl_library import FakeNccl


@pytest.fixture
def nccl():
    """The library that all ranks of a test have."""
    return FakeNccl()
