"""Clusters where an ipyparallel cluster runs: its engines on two hosts start our agents."""

import contextlib
import subprocess
import sys

import ipyparallel
import psutil
import pytest

from jupyter_dist import Cluster
from jupyter_dist.errors import StartFailed
from tests.facts import assert_tells

from .clusters import START_TIMEOUT_S, values

PLACES = ("nodeA", "nodeA", "nodeB")
FILE = "/root/engine.json"
PORTS = "47000-47009"


@pytest.fixture
def client(lab, tmp_path, monkeypatch):
    """A client of ipyparallel, whose controller is here and whose engines are on two hosts."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    theirs = ipyparallel.Cluster(
        controller_ip=lab.head_address,
        controller_location=lab.head_address,
        controller_args=["--ping=300"],
    )
    theirs.start_controller_sync()
    with contextlib.ExitStack() as stack:
        stack.callback(theirs.stop_controller_sync)
        client = stack.enter_context(theirs.connect_client_sync())
        (connection,) = (tmp_path / "ipython").glob("*/security/ipcontroller-*-engine.json")
        for count, host in enumerate(PLACES, start=1):
            lab.write(host, FILE, connection.read_text(), mode=0o600)
            stack.enter_context(engine(lab, host))
            client.wait_for_engines(count, timeout=20)
        yield client


@contextlib.contextmanager
def engine(lab, host):
    """One engine of theirs on a host."""
    command = lab.command(host, [sys.executable, "-m", "ipyparallel.engine", f"--file={FILE}"])
    with open(lab.path(host, "/root/engine.log"), "ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield
    finally:
        for each in lab.processes(host):
            with contextlib.suppress(psutil.NoSuchProcess):  # it may be ending
                if any("ipyparallel" in word for word in each.cmdline()):
                    each.kill()
        process.wait(10)


@pytest.mark.slow
def test_ranks_of_two_hosts_compute_together_beside_their_engines(client, home):
    with Cluster.from_ipyparallel(client, timeout_s=START_TIMEOUT_S) as cluster:
        home.remember(cluster)
        hosts = {host.name: len(host.engines) for host in cluster.topology().hosts}
        assert hosts == {"nodeA": 2, "nodeB": 1}
        code = "import numpy as np\nint(comm.all_reduce(np.array(rank + 1)))"
        assert values(cluster.run(code)) == ["6"] * 3
        where = client[:].apply_sync(eval, "__import__('socket').gethostname()")
        assert where == list(PLACES)
    assert len(client[:].apply_sync(abs, 1)) == len(PLACES)


@pytest.mark.slow
def test_a_host_that_does_not_find_home_is_named_with_its_last_words(client, home, lab):
    lab.block_port("nodeB", PORTS)
    with pytest.raises(StartFailed) as caught:
        Cluster.from_ipyparallel(client, timeout_s=START_TIMEOUT_S, ports=PORTS)
    first, second, *said = str(caught.value).splitlines()
    assert_tells(first, "host nodeB: ", "status 94")
    assert_tells(second, "--- nodeB ")
    assert_tells("\n".join(said), "stayed silent", "port 470")
    assert Cluster.running() == []
