import pytest

from jupyter_dist.cluster.connection.no_answer import still_runs
from jupyter_dist.launch.files.connection_file import ConnectionInfo
from jupyter_dist.protocol.credentials import Credentials, KeyPair


@pytest.mark.parametrize(
    ("host", "way"), [("", "kill -9 4711"), ("login", "`jupyter dist stop demo` on login")]
)
def test_who_does_not_stop_is_ended_where_it_runs(host, way):
    info = ConnectionInfo(
        name="demo",
        clients_address="tcp://127.0.0.1:1",
        credentials=Credentials("key", KeyPair("public", "secret")),
        coordinator_pid=4711,
        world_size=2,
        log_path="/log",
        coordinator_host=host,
    )
    told = str(still_runs(info, 3.0))
    assert way in told
    assert ("4711" in told) == (not host)
