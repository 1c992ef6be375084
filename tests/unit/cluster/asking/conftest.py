from concurrent.futures import ThreadPoolExecutor

import pytest


@pytest.fixture
def in_thread():
    """Call something on another thread; gives what it returns."""
    with ThreadPoolExecutor(1) as threads:
        yield lambda call: threads.submit(call).result(10)
