"""For whom what was said is kept, without a socket: a Router is asked about its ledgers alone."""

from jupyter_dist.control.ledger import Ledger
from jupyter_dist.control.router import MOST_SILENT, Router
from jupyter_dist.protocol.codec import VERSION
from jupyter_dist.protocol.identity import line_identity, new_client


def test_what_is_said_to_a_client_on_another_machine_is_kept_for_longer():
    router = Router.__new__(Router)
    near, far = (line_identity(new_client(is_far=is_far), 1) for is_far in (False, True))
    router._heard, router._ledgers = set(), {near: Ledger(), far: Ledger()}
    for ledger in router._ledgers.values():
        ledger.enter((VERSION, b"said"))
    for _ in range(MOST_SILENT + 1):
        router.keep_less()
    assert [len(list(router._ledgers[line].unacknowledged())) for line in (near, far)] == [0, 1]
