import msgspec
import pytest

from jupyter_dist.coordinator.observation.hang_watch import HangWatch
from jupyter_dist.coordinator.observation.nccl_diagnostics import INTERVAL_S, NcclDiagnostics
from jupyter_dist.model.ranks.ras import RasCommunicator, RasRank, RasReport
from jupyter_dist.protocol import host_agent_pb2 as pb

SAID = "NCCL says: ranks 0-2 have launched AllReduce 7 times, rank 3 6 times"


def counted(*times, key="c"):
    """What RAS tells of the four ranks of the fixture, two on each host."""
    ranks = tuple(
        RasRank(
            rank=number,
            host=("10.0.0.1", "10.0.0.2")[number // 2],
            pid=100 + number,
            counts={"AllReduce": each},
        )
        for number, each in enumerate(times)
    )
    return RasReport("2.29.1", (RasCommunicator(key=key, size=4, ranks=ranks),))


class Hosts:
    """Two hosts whose agents answer when a test says so, and the witness that asks them."""

    def __init__(self, cluster):
        self.cluster = cluster
        for host, address in (("a", "10.0.0.1"), ("b", "10.0.0.2")):
            interfaces = [
                pb.Interface(name="eth0", address=address),
                pb.Interface(name="lo", address="127.0.0.1"),
            ]
            joined = pb.Joined(interfaces=interfaces, cpu_count=4)
            cluster.roster.hosts[host].joined = joined
        self.witness = NcclDiagnostics(cluster.roster, cluster.ras)

    @property
    def asked(self):
        """Hosts and request ids of all questions for RAS."""
        commands = self.cluster.sender.commanded("read_ras")
        return [(host, command.request_id) for host, command in commands]

    def answer(self, report, request_id=""):
        """Let one agent answer the last question, or the one with this id."""
        data = msgspec.msgpack.encode(report) if report is not None else b""
        read = pb.RasRead(request_id=request_id or self.asked[-1][1], report=data)
        self.cluster.ras.on_event("a", pb.AgentEvent(ras_read=read), 0.0)

    def round(self, now_s, *reports):
        """Ask at this time, and let the agents answer; gives what is said then."""
        self.witness.testify(now_s)
        for report in reports:
            self.answer(report)
        return self.witness.testify(now_s)

    def repeat(self, report, rounds=2):
        """Let both agents give the same report in so many rounds; what is said after each."""
        return [self.round(turn * INTERVAL_S, report, report) for turn in range(rounds)]


ODD = counted(7, 7, 7, 6)


@pytest.fixture
def hosts(cluster):
    return Hosts(cluster)


def test_all_hosts_are_asked_at_most_every_few_seconds(hosts):
    for tenth in range(99):
        hosts.witness.testify(tenth / 10)
    assert [host for host, _ in hosts.asked] == ["a", "b", "a", "b"]
    assert len({request_id for _, request_id in hosts.asked}) == 2


def test_hosts_with_gpus_are_asked_before_others(hosts):
    hosts.cluster.roster.hosts["b"].joined.gpu_count = 8
    hosts.witness.testify(0.0)
    assert [host for host, _ in hosts.asked] == ["b", "a"]


def test_what_nccl_says_twice_is_told_and_stays_until_it_says_something_else(hosts):
    assert hosts.repeat(ODD) == ["", SAID]
    assert hosts.round(2 * INTERVAL_S) == SAID, "the next answer is on its way"
    assert hosts.round(2 * INTERVAL_S, ODD, ODD) == SAID
    even = counted(7, 7, 7, 7)
    assert hosts.round(3 * INTERVAL_S, even, even) == ""


def test_counts_that_run_on_are_not_told(hosts):
    for turn in range(5):
        report = counted(turn, turn, turn, turn - 1)
        assert hosts.round(turn * INTERVAL_S, report, report) == ""


def test_it_is_dropped_when_nobody_answers_any_more(hosts):
    hosts.repeat(ODD)
    assert hosts.round(2 * INTERVAL_S) == SAID
    assert hosts.round(3 * INTERVAL_S) == ""


def test_one_host_without_an_answer_does_not_matter(hosts):
    hosts.round(0.0, None, ODD)
    assert hosts.round(INTERVAL_S, None, ODD) == SAID


def test_answers_to_an_older_question_are_dropped(hosts):
    hosts.round(0.0, ODD, ODD)
    hosts.witness.testify(INTERVAL_S)
    hosts.answer(ODD, hosts.asked[0][1])
    assert hosts.witness.testify(INTERVAL_S) == ""


def test_a_process_with_an_address_that_two_ranks_have_in_common_is_not_mistaken(hosts):
    """Loopback is the same on both hosts, and so may be their pids."""
    for engine, pid in zip(hosts.cluster.roster.engines, (100, 101, 100, 101), strict=True):
        engine.pid = pid
    ranks = tuple(
        RasRank(rank=n, host="127.0.0.1", pid=100 + n, counts={"AllReduce": n}) for n in range(2)
    )
    report = RasReport("", (RasCommunicator(key="c", size=2, ranks=ranks),))
    assert hosts.repeat(report) == ["", ""]


# --- with the verdict ---


class Watch:
    """Rank 0 of a cell waits in a barrier; nobody answers questions for stacks."""

    def __init__(self, hosts):
        self.roster = hosts.cluster.roster
        for rank in range(4):
            self.roster[rank].start_work("In[3]", 0.0)
        self._watch = HangWatch(range(4), self.roster, hosts.cluster.questions, hosts.witness)

    def look(self, now_s):
        call = pb.Collective(sequence=9, operation="barrier", seconds=now_s, is_running=True)
        sample = pb.EngineSample(engine="0", collective=call)
        self.roster.take_telemetry("a", pb.Telemetry(engines=[sample]))
        return self._watch.look({}, {}, now_s).text


def test_nccl_is_not_asked_before_something_is_odd(hosts):
    watch = Watch(hosts)
    for tenth in range(29):
        assert watch.look(tenth / 10) == ""
    assert hosts.asked == []
    assert watch.look(3.0)
    assert [host for host, _ in hosts.asked] == ["a", "b"]


def test_what_nccl_says_follows_the_verdict(hosts):
    watch = Watch(hosts)
    for tenth in range(100):
        text = watch.look(tenth / 10)
        if hosts.asked:
            hosts.answer(ODD)
            hosts.answer(ODD)
    assert "barrier #9" in text
    assert text.endswith(f"; {SAID}")
