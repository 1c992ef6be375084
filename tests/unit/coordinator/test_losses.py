from pathlib import Path

import pytest

from jupyter_dist.coordinator.arrivals import Arrivals
from jupyter_dist.coordinator.cells import CellRun
from jupyter_dist.coordinator.deployment import Deployment
from jupyter_dist.coordinator.fence import Fence
from jupyter_dist.coordinator.hosts import Hosts, Reach
from jupyter_dist.coordinator.losses import EXIT_GRACE_S, Losses
from jupyter_dist.model.engine_state import EngineState
from jupyter_dist.model.health import HealthPolicy
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.credentials import Credentials, KeyPair
from jupyter_dist.protocol.messages import CellEvents, CellNote, RankFinished, SubmitCell
from jupyter_dist.version import WIRE

POLICY = HealthPolicy(interval_s=0.5, suspect_after_s=3.0, lost_after_s=10.0)


class Hearts:
    """When each rank's heart was last heard."""

    def __init__(self, **last_s):
        self._last_s = {name.removeprefix("rank").encode(): at_s for name, at_s in last_s.items()}

    def last_beat_s(self, identity):
        return self._last_s.get(identity, 100.0)


@pytest.fixture
def house(cluster):
    """The parts around losses; `reports` collects what would end a start."""
    cluster.reports = []
    cluster.fence = Fence(cluster.roster, cluster.rendezvous, cluster.outbox)
    cluster.losses = Losses(
        cluster.roster, cluster.rendezvous, cluster.fence, cluster.reports.append
    )
    cluster.commands = []

    def send(host, command):
        cluster.commands.append((host, command))
        return True

    credentials = Credentials("server", KeyPair("public", "secret"))
    deployment = Deployment(cluster.spec, credentials)
    cluster.hosts = Hosts(
        cluster.roster,
        cluster.rendezvous,
        cluster.fence,
        cluster.losses,
        Reach(deployment, Arrivals({}, Path()), send),
    )
    return cluster


def test_an_exit_is_believed_after_a_moment_in_which_last_results_may_come(house):
    house.losses.on_exit(pb.EngineExited(engine="2", pid=102, exit_code=7), 50.0)
    house.losses.tick(50.0 + EXIT_GRACE_S / 2)
    assert house.roster[2].state is EngineState.IDLE
    house.losses.tick(50.0 + EXIT_GRACE_S)
    assert house.roster[2].state is EngineState.LOST
    assert house.roster[2].reason == "its process exited with code 7"
    assert house.rendezvous.is_broken


def test_a_loss_is_told_once(house):
    for _ in range(2):
        house.losses.on_exit(pb.EngineExited(engine="1", pid=101, signal=9), 50.0)
    house.losses.tick(60.0)
    assert len(house.reports) == 1
    assert "SIGKILL" in house.reports[0]


def test_a_silent_engine_is_first_suspected_and_then_lost(house):
    house.losses.judge(Hearts(rank0=96.0), POLICY, 100.0)
    assert house.roster[0].is_suspect
    assert "no heartbeat for 4.0 s" in house.roster[0].reason
    house.losses.judge(Hearts(rank0=100.0), POLICY, 100.5)
    assert not house.roster[0].is_suspect
    assert house.roster[0].reason == ""
    house.losses.judge(Hearts(rank0=90.0), POLICY, 100.0)
    assert house.roster.ranks_in(EngineState.LOST) == [0]


def test_an_engine_without_a_process_yet_is_not_judged_by_its_silence(starting):
    fence = Fence(starting.roster, starting.rendezvous, starting.outbox)
    losses = Losses(starting.roster, starting.rendezvous, fence, lambda _: None)
    losses.judge(Hearts(rank0=0.0, rank1=0.0, rank2=0.0, rank3=0.0), POLICY, 100.0)
    assert starting.roster.ranks_in(EngineState.LOST) == []


def test_when_an_agent_is_gone_all_its_engines_are(house):
    house.hosts.on_gone("b")
    assert house.roster.ranks_in(EngineState.LOST) == [2, 3]
    assert "agent of host b is gone" in house.roster[3].reason
    assert house.roster.hosts["b"].is_lost


def test_an_interrupt_on_its_way_to_a_host_that_is_gone_closes_no_fence(house):
    house.fence.signals_under_way = {"4-request-1@a", "4-request-1@b"}
    house.hosts.on_gone("b")
    assert house.fence.signals_under_way == {"4-request-1@a"}


def join(house, *names, **facts):
    for name in names:
        interface = pb.Interface(name="eth0", address=f"10.0.0.{ord(name[0])}", prefix_length=24)
        joined = pb.Joined(
            **{
                "host": name,
                "hostname": f"{name}.lab",
                "machine": name,
                "wire": WIRE,
                "interfaces": [interface],
                **facts,
            }
        )
        house.hosts.on_event(name, pb.AgentEvent(joined=joined), 1.0)


def test_once_all_agents_are_there_each_is_told_to_start_exactly_its_own_ranks(house):
    join(house, "b")
    assert house.commands == []
    join(house, "a")
    assert [host for host, _ in house.commands] == ["a", "b"]
    command = house.commands[1][1]
    assert (command.start_engines.bind_host, command.start_engines.interface) == (
        "10.0.0.98",
        "eth0",
    )
    assert [place.rank for place in command.start_engines.places] == [2, 3]
    assert [place.local_rank for place in command.start_engines.places] == [0, 1]
    assert command.start_engines.generation == house.rendezvous.generation


def test_what_agents_observe_reaches_the_roster(house):
    sample = pb.EngineSample(engine="1", cpu_percent=50, rss_bytes=1 << 20)
    house.hosts.on_event("a", pb.AgentEvent(telemetry=pb.Telemetry(engines=[sample])), 1.0)
    assert house.roster[1].sample.rss_bytes == 1 << 20


def test_a_confirmed_interrupt_opens_the_fence_again(house):
    house.fence.signals_under_way = {"4-request-1@a"}
    sent = pb.SignalSent(request_id="4-request-1", engines=["0"])
    house.hosts.on_event("a", pb.AgentEvent(signal_sent=sent), 1.0)
    assert not house.fence.signals_under_way


def test_a_host_that_cannot_start_says_why(house):
    problem = pb.StartProblem(reason="no zygote")
    house.hosts.on_event("a", pb.AgentEvent(start_problem=problem), 1.0)
    assert house.hosts.problem == "a: no zygote"


def test_an_agent_of_another_version_ends_the_start_and_is_told_nothing(house):
    join(house, "a", wire="jupyter-dist/0")
    join(house, "b")
    assert house.commands == []
    assert house.hosts.problem.startswith("a: this side speaks jupyter-dist/1, the other side")


def test_two_names_of_one_machine_end_the_start(house):
    join(house, "a", "b", machine="m1", hostname="vm")
    assert house.commands == []
    assert house.hosts.problem == "a and b are the same machine (vm). Name it once: a:4."


def test_hosts_that_differ_are_noted(house):
    join(house, "a", versions={"numpy": "1.26.4"})
    join(house, "b", versions={"numpy": "0.1"})
    assert any(note.startswith("numpy differs: ") for note in house.hosts.list_notes())
    assert any("0.1 on b" in note for note in house.hosts.list_notes())


def test_a_note_of_an_agent_carries_its_host(house):
    house.hosts.on_event("a", pb.AgentEvent(note=pb.Note(text="no /data here")), 1.0)
    assert house.hosts.list_notes() == ("a: no /data here",)


def test_the_same_note_of_several_hosts_is_one(house):
    for host in ("a", "b"):
        house.hosts.on_event(host, pb.AgentEvent(note=pb.Note(text="no /data here")), 1.0)
        house.hosts.on_event(host, pb.AgentEvent(note=pb.Note(text="no /data here")), 2.0)
    assert house.hosts.list_notes() == ("a, b: no /data here",)


def test_a_loss_is_kept_as_a_report(house):
    exited = pb.EngineExited(engine="2", pid=4711, exit_code=7)
    house.losses.on_exit(exited, 50.0)
    house.losses.tick(60.0)
    house.losses.judge(Hearts(rank0=0.0), POLICY, 100.0)
    assert sorted(house.losses.crashes) == [0, 2]
    assert house.losses.crashes[2].exit_code == 7
    assert house.losses.crashes[0].reason == house.roster[0].reason


def test_an_exit_that_was_told_counts_more_than_the_end_of_the_agent(house):
    house.losses.on_exit(pb.EngineExited(engine="3", pid=4711, exit_code=7), 50.0)
    house.losses.on_exit(pb.EngineExited(engine="0", pid=4712, exit_code=8), 50.0)
    house.losses.on_host_gone("b")
    assert house.losses.crashes[3].exit_code == 7
    assert "agent of host b is gone" in house.losses.crashes[2].reason
    assert 0 not in house.losses.crashes
    house.losses.tick(60.0)
    assert house.losses.crashes[0].exit_code == 8


def test_what_will_be_done_about_a_loss_stands_in_its_report(house):
    house.losses.announce = lambda rank: f"rank {rank} will be replaced"
    house.losses.on_exit(pb.EngineExited(engine="2", pid=4711, exit_code=7), 50.0)
    house.losses.tick(60.0)
    assert house.losses.crashes[2].outlook == "rank 2 will be replaced"


def test_the_report_that_a_cell_sends_says_what_will_be_done(house):
    house.losses.announce = lambda rank: f"rank {rank} will be replaced"
    cell = CellRun(b"me", SubmitCell("r1", "x", (0, 2)), "cell-1", house.parts)
    house.fence.submit(cell, 0.0)
    house.fence.advance(0.0)
    house.losses.on_exit(pb.EngineExited(engine="2", pid=4711, exit_code=7), 50.0)
    house.losses.tick(60.0)
    cell.tick(60.0)
    events = [event for told in house.outbox.told(CellEvents) for event in told.events]
    (lost,) = (event for event in events if isinstance(event, RankFinished))
    assert lost.crash.outlook == "rank 2 will be replaced"
    assert CellNote("rank 2 will be replaced") in events


# --- a scheduler that may know why ---


class Witness:
    """Knows why; answers when the test lets it."""

    def __init__(self):
        self.questions = []
        self.answered = set()
        self.why = ""
        self.down = {}
        self.news = []

    def ask(self, confirm_s=0.0):
        self.questions.append(len(self.questions))
        return self.questions[-1]

    def has_answered(self, question):
        return question in self.answered

    def why_lost(self, host):
        return self.why or self.down.get(host, "")

    def take_news(self):
        return self.news.pop() if self.news else ""

    def answer(self, why):
        self.why = why
        self.answered = set(self.questions)


@pytest.fixture
def witness(house):
    house.losses.witness = Witness()
    return house.losses.witness


CANCELLED = "Slurm job 12 was cancelled (CANCELLED by root)"


def test_the_loss_of_a_host_is_told_once_its_scheduler_was_heard(house, witness):
    house.hosts.on_gone("b")
    house.losses.tick(60.0)
    assert house.roster.ranks_in(EngineState.LOST) == []
    witness.answer(CANCELLED)
    house.losses.tick(60.1)
    assert house.roster.ranks_in(EngineState.LOST) == [2, 3]
    assert house.roster[2].reason == f"the agent of host b is gone: {CANCELLED}"


def test_what_ends_by_a_signal_is_told_with_what_the_scheduler_says(house, witness):
    house.losses.on_exit(pb.EngineExited(engine="1", pid=101, signal=15), 50.0)
    house.losses.tick(60.0)
    assert house.roster.ranks_in(EngineState.LOST) == []
    witness.answer(CANCELLED)
    house.losses.tick(60.1)
    assert house.roster[1].reason == CANCELLED
    assert house.losses.crashes[1].signal == 15


def test_what_a_living_agent_tells_is_not_put_down_to_its_node(house, witness):
    witness.down = {"a": "Slurm job 12: node a is down (Not responding)"}
    house.losses.on_exit(pb.EngineExited(engine="1", pid=101, signal=9), 50.0)
    witness.answer("")
    house.losses.tick(60.0)
    assert "SIGKILL" in house.roster[1].reason
    assert "is down" not in house.roster[1].reason


def test_a_scheduler_that_knows_nothing_changes_nothing(house, witness):
    house.losses.on_exit(pb.EngineExited(engine="1", pid=101, signal=9), 50.0)
    house.hosts.on_gone("b")
    witness.answer("")
    house.losses.tick(60.0)
    assert "SIGKILL" in house.roster[1].reason
    assert house.roster[2].reason == "the agent of host b is gone"


def test_who_exits_with_a_code_needs_no_witness(house, witness):
    house.losses.on_exit(pb.EngineExited(engine="1", pid=101, exit_code=7), 50.0)
    house.losses.tick(60.0)
    assert house.roster.ranks_in(EngineState.LOST) == [1]
    assert witness.questions == []


def test_a_rank_that_is_silent_is_given_up_once_its_scheduler_was_heard(house, witness):
    for _ in range(2):
        house.losses.judge(Hearts(rank0=80.0), POLICY, 100.0)
    assert house.roster.ranks_in(EngineState.LOST) == []
    assert len(witness.questions) == 1
    witness.answer("Slurm job 12: node a is down")
    house.losses.judge(Hearts(rank0=80.0), POLICY, 100.1)
    assert house.roster[0].reason.startswith("no heartbeat for 20.1 s")
    assert house.roster[0].reason.endswith(": Slurm job 12: node a is down")


def test_the_loss_of_one_host_waits_for_no_other(house, witness):
    house.hosts.on_gone("b")
    witness.answer("")
    house.hosts.on_gone("a")
    house.losses.tick(60.0)
    assert house.roster.ranks_in(EngineState.LOST) == [2, 3]


def test_a_cell_is_told_that_the_end_of_its_job_nears(house, witness):
    news = "Slurm ends this job in 8 min (time limit)"
    witness.news = [news]
    house.losses.tick(60.0)
    assert witness.news, "nobody would have read it"
    cell = CellRun(b"me", SubmitCell("r1", "x"), "cell-1", house.parts)
    house.fence.submit(cell, 60.0)
    house.fence.advance(60.0)
    house.losses.tick(60.1)
    cell.tick(61.0)
    events = [event for told in house.outbox.told(CellEvents) for event in told.events]
    assert CellNote(news) in events
