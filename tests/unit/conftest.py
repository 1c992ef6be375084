"""What holds for all tests of units: nothing of them goes on, and a busy machine fails none."""

import threading

import pytest
from hypothesis import HealthCheck, settings

ENDS_WITHIN_S = 5.0

settings.register_profile(
    "unit", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unit")


@pytest.fixture(autouse=True)
def ended_threads():
    """A thread that a test leaves would keep its process from ending."""
    before = set(threading.enumerate())
    yield
    others = [each for each in threading.enumerate() if each not in before and not each.daemon]
    for each in others:
        each.join(ENDS_WITHIN_S)  # one that has told its last may be just ending
    left = [each for each in others if each.is_alive()]
    assert not left
