import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jupyter_dist.engine.channel.stack_thread_name import StackSign
from jupyter_dist.model.ranks.stack_thread import SIGNALLED_THREAD, SPARED_THREAD, STACK_SIGNAL


@pytest.fixture
def renew():
    """Renew the sign on a thread of its own, and give the system's name of that."""
    sign = StackSign()

    def renew():
        sign.renew()
        return Path(f"/proc/self/task/{threading.get_native_id()}/comm").read_text().strip()

    before = signal.getsignal(STACK_SIGNAL)
    with ThreadPoolExecutor(1) as thread:
        yield lambda: thread.submit(renew).result(10)
    signal.signal(STACK_SIGNAL, before)


def test_the_thread_is_marked_for_signals_while_user_code_has_no_handler_of_its_own(renew):
    for handler, name in (
        (signal.SIG_DFL, SIGNALLED_THREAD),
        (lambda *_: None, SPARED_THREAD),
        (signal.SIG_DFL, SIGNALLED_THREAD),
    ):
        signal.signal(STACK_SIGNAL, handler)
        assert renew() == name
