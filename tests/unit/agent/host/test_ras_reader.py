import queue
from pathlib import Path

import msgspec
import pytest

from jupyter_dist.agent.host import ras_reader
from jupyter_dist.agent.host.ras_reader import PORTS, RasReader, ras_port
from jupyter_dist.model.ranks.ras import RasReport
from jupyter_dist.protocol import host_agent_pb2 as pb

RUN_DIR = Path("/run/user/1000/jupyter-dist-x1")


class Host:
    """An agent's reader on a host whose GPUs and RAS are told by the test."""

    def __init__(self, monkeypatch):
        self.gpus, self.report, self.asked = 0, RasReport("2.29.1"), []
        self.told = queue.Queue()
        self.reader = RasReader(RUN_DIR, self.told.put)
        monkeypatch.setattr(ras_reader, "count_gpus", lambda: self.gpus)
        monkeypatch.setattr(ras_reader, "ask_ras", self._ask)
        monkeypatch.delenv("NCCL_RAS_ADDR", raising=False)

    def _ask(self, address):
        self.asked.append(address)
        return self.report

    def read(self):
        self.reader.obey(pb.ReadRas(request_id="r1"))
        read = self.told.get(timeout=10).ras_read
        assert read.request_id == "r1"
        return msgspec.msgpack.decode(read.report, type=RasReport) if read.report else None


@pytest.fixture
def host(monkeypatch):
    return Host(monkeypatch)


def test_ranks_of_a_host_with_gpus_get_a_port_of_their_own(host):
    host.gpus = 2
    address = f"localhost:{ras_port(RUN_DIR)}"
    assert host.reader.wishes({}) == {"NCCL_RAS_ADDR": address}
    assert host.read() == host.report
    assert host.asked == [address]


def test_the_port_is_the_same_each_time_and_another_for_another_agent():
    ports = {ras_port(Path(f"/tmp/jupyter-dist-{number}")) for number in range(50)}
    assert len(ports) > 45
    assert ports <= set(PORTS)
    assert ras_port(RUN_DIR) == ras_port(Path(str(RUN_DIR)))


@pytest.mark.parametrize("by_user", [True, False])
def test_what_the_user_or_the_host_has_chosen_stays(host, monkeypatch, by_user):
    host.gpus, chosen = 2, {"NCCL_RAS_ADDR": "localhost:5000"}
    if not by_user:
        monkeypatch.setenv(*chosen.popitem())
    assert host.reader.wishes(chosen) == {}
    host.read()
    assert host.asked == ["localhost:5000"]


@pytest.mark.parametrize("gpus", [0, 1])
def test_without_gpus_or_where_nobody_answers_the_answer_is_empty(host, gpus):
    host.gpus, host.report = gpus, None if gpus else host.report
    assert len(host.reader.wishes({})) == gpus
    assert host.read() is None
    assert len(host.asked) == gpus
