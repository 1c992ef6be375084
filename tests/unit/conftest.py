"""What holds for all tests of units: nothing of them goes on, and a busy machine fails none."""

import threading

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "unit", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unit")


@pytest.fixture(autouse=True)
def ended_threads():
    """A thread that a test leaves would keep its process from ending."""
    before = set(threading.enumerate())
    yield
    left = [each for each in threading.enumerate() if each not in before and not each.daemon]
    assert not left
