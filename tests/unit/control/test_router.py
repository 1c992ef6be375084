"""For whom what was said is kept, and where nothing may be listened at, without a socket."""

import pytest

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


@pytest.mark.parametrize("mode", [0o750, 0o701, 0o777])
def test_no_unix_socket_lies_where_others_may_come(tmp_path, mode):
    tmp_path.chmod(mode)
    with pytest.raises(PermissionError):
        Router.__new__(Router).bind_unix(str(tmp_path / "home"))


def test_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        Router.__new__(Router).bind_unix(str(tmp_path / "none" / "home"))
