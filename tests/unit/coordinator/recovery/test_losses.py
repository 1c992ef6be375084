import pytest
from fakes.recovery import make_hosts

from jupyter_dist.coordinator.cells.cell_run import CellRun
from jupyter_dist.coordinator.cells.scheduler import CellScheduler
from jupyter_dist.coordinator.recovery.losses import EXIT_GRACE_S, Losses
from jupyter_dist.coordinator.state.clock import TICK_S
from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.model.spec.liveness import HealthPolicy
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import CellNote, RankFinished, SubmitCell

POLICY = HealthPolicy(interval_s=0.5, suspect_after_s=3.0, lost_after_s=10.0)


class Hearts:
    """When each rank's heart was last heard."""

    def __init__(self, **last_s):
        self._last_s = {name.removeprefix("rank").encode(): at_s for name, at_s in last_s.items()}

    def last_beat_s(self, identity):
        return self._last_s.get(identity, 100.0)

    def oldest_s(self):
        return min(self._last_s.values(), default=100.0)


@pytest.fixture
def server(cluster):
    """The parts around losses; `reports` collects what would end a start."""
    cluster.reports = []
    make_hosts(cluster, cluster.reports.append)
    return cluster


def test_an_exit_is_believed_after_a_moment_in_which_last_results_may_come(server):
    server.losses.on_exit(pb.EngineExited(engine="2", pid=102, exit_code=7), 50.0)
    server.losses.tick(50.0 + EXIT_GRACE_S / 2)
    assert server.roster[2].state is EngineState.IDLE
    server.losses.tick(50.0 + EXIT_GRACE_S)
    assert server.roster[2].state is EngineState.LOST
    assert server.roster[2].reason == server.losses.crashes[2].reason
    assert server.losses.crashes[2].exit_code == 7
    assert server.rendezvous.is_broken


def test_a_loss_is_told_once(server):
    for _ in range(2):
        server.losses.on_exit(pb.EngineExited(engine="1", pid=101, signal=9), 50.0)
    server.losses.tick(60.0)
    assert len(server.reports) == 1
    assert "SIGKILL" in server.reports[0]


def test_a_silent_engine_is_first_suspected_and_then_lost(server):
    server.losses.judge(Hearts(rank0=96.0), POLICY, 100.0)
    assert server.roster[0].is_suspect
    assert " 4.0 s" in server.roster[0].reason
    server.losses.judge(Hearts(rank0=100.0), POLICY, 100.5)
    assert (server.roster[0].is_suspect, server.roster[0].reason) == (False, "")
    server.losses.judge(Hearts(rank0=90.0), POLICY, 101.5)
    assert server.roster.ranks_in(EngineState.LOST) == [0]
    assert server.losses.crashes[0].reason == server.roster[0].reason


def test_a_silent_engine_without_a_core_is_excused_while_that_lasts(server):
    host, starved = server.roster[0].info.host, pb.EngineSample(engine="0", is_starved=True)
    telemetry = pb.Telemetry(engines=[starved])
    server.roster.take_telemetry(host, telemetry, 92.0)
    server.losses.judge(Hearts(rank0=90.0), POLICY, 94.0)
    assert server.roster[0].starved_s == 0, "it was not silent"
    assert server.losses.silent == {host: ["0"]}
    server.roster.take_telemetry(host, telemetry, 94.5)
    due_s = server.losses.judge(Hearts(rank0=90.0), POLICY, 101.0)
    assert (due_s, server.roster.lost_ranks()) == (102.5, [])
    server.losses.judge(Hearts(rank0=90.0), POLICY, due_s)
    assert server.roster.lost_ranks() == [0]
    assert server.losses.silent == {}


def test_a_late_beat_ends_what_was_excused_before_it(server):
    server.losses.judge(Hearts(rank0=80.0), POLICY, 84.0)
    server.roster[0].starved_s = 12.0
    due_s = server.losses.judge(Hearts(rank0=80.0), POLICY, 95.0)
    assert (due_s, server.roster.lost_ranks()) == (102.0, [])
    server.losses.judge(Hearts(rank0=91.0), POLICY, 95.0)
    assert server.roster[0].starved_s == 4.0, "all of its silence, and no more"
    server.losses.judge(Hearts(rank0=91.0), POLICY, 104.9)
    assert server.roster.lost_ranks() == []
    server.losses.judge(Hearts(rank0=91.0), POLICY, 105.0)
    assert server.roster.lost_ranks() == [0]


def test_an_engine_that_has_answered_is_excused_for_nothing_any_more(server):
    server.losses.judge(Hearts(rank0=90.0), POLICY, 94.0)
    server.roster[0].starved_s = 2.0
    server.losses.judge(Hearts(rank0=94.0), POLICY, 95.0)
    assert server.roster[0].starved_s == 0
    assert server.losses.silent == {}


def test_while_all_are_well_silence_is_looked_for_as_often_as_beats_are_asked_for(server):
    well = {f"rank{rank}": 100.0 for rank in range(4)}
    due_s = server.losses.judge(Hearts(**well), POLICY, 100.5)
    assert due_s == 100.0 + POLICY.suspect_after_s
    silent = Hearts(**well | {"rank0": 90.0})
    later_s = 100.5 + POLICY.interval_s
    assert server.losses.judge(silent, POLICY, later_s - 0.1) == due_s
    assert server.roster.lost_ranks() == []
    server.losses.judge(silent, POLICY, later_s)
    assert server.roster.lost_ranks() == [0]


def test_a_silence_that_is_none_for_the_policy_is_over_with_the_next_beat(server):
    patient = HealthPolicy(interval_s=0.5, suspect_after_s=30.0, lost_after_s=60.0)
    well = {f"rank{rank}": 100.0 for rank in range(4)}
    for now_s, beat_s, age_s in ((100.5, 96.0, 4.5), (101.5, 101.0, 0.5)):
        server.losses.judge(Hearts(**well | {"rank0": beat_s}), patient, now_s)
        assert server.roster[0].beat_age_s == age_s


def test_an_engine_without_a_process_yet_is_not_judged_by_its_silence(starting):
    scheduler = CellScheduler(starting.roster, starting.rendezvous, starting.sender)
    losses = Losses(starting.roster, starting.rendezvous, scheduler, print, lambda _: True)
    losses.judge(Hearts(rank0=0.0, rank1=0.0, rank2=0.0, rank3=0.0), POLICY, 100.0)
    assert starting.roster.ranks_in(EngineState.LOST) == []


def test_a_silent_engine_whose_agent_is_not_connected_is_lost_with_its_host(server):
    server.broken_hosts.add("b")
    due_s = server.losses.judge(Hearts(rank0=90.0, rank2=90.0), POLICY, 100.0)
    assert server.roster.lost_ranks() == [0], "its agent is connected"
    assert server.roster[2].is_suspect, "it is told meanwhile who is silent"
    assert due_s == 100.0 + TICK_S
    server.hosts.on_gone("b", "not heard for 9.5 s")
    assert server.roster.lost_ranks() == [0, 2, 3]
    assert " host b " in server.roster[2].reason
    assert server.roster[2].reason.endswith("not heard for 9.5 s")


def test_a_silent_engine_whose_agent_comes_back_is_lost_alone(server):
    server.broken_hosts.add("b")
    server.losses.judge(Hearts(rank2=90.0), POLICY, 100.0)
    server.broken_hosts.clear()
    server.losses.judge(Hearts(rank2=90.0), POLICY, 100.1)
    assert server.roster.lost_ranks() == [2]
    assert "10.1 s" in server.roster[2].reason


def test_when_an_agent_is_gone_all_its_engines_are_and_no_interrupt_is_on_its_way(server):
    server.scheduler.signals_under_way = {"4-request-1@a", "4-request-1@b"}
    server.hosts.on_gone("b")
    assert server.roster.ranks_in(EngineState.LOST) == [2, 3]
    assert " host b " in server.roster[3].reason
    assert server.roster.hosts["b"].is_lost
    assert server.scheduler.signals_under_way == {"4-request-1@a"}


def test_what_agents_observe_reaches_the_roster(server):
    sample = pb.EngineSample(engine="1", cpu_percent=50, rss_bytes=1 << 20)
    server.hosts.on_event("a", pb.AgentEvent(telemetry=pb.Telemetry(engines=[sample])), 1.0)
    assert server.roster[1].sample.rss_bytes == 1 << 20


def test_a_confirmed_interrupt_opens_the_fence_again(server):
    server.scheduler.signals_under_way = {"4-request-1@a"}
    sent = pb.SignalSent(request_id="4-request-1", engines=["0"])
    server.hosts.on_event("a", pb.AgentEvent(signal_sent=sent), 1.0)
    assert not server.scheduler.signals_under_way


def test_an_exit_that_was_told_counts_more_than_the_end_of_the_agent(server):
    server.losses.on_exit(pb.EngineExited(engine="3", pid=4711, exit_code=7), 50.0)
    server.losses.on_exit(pb.EngineExited(engine="0", pid=4712, exit_code=8), 50.0)
    server.losses.on_host_gone("b")
    assert server.losses.crashes[3].exit_code == 7
    assert " host b " in server.losses.crashes[2].reason
    assert 0 not in server.losses.crashes
    server.losses.tick(60.0)
    assert server.losses.crashes[0].exit_code == 8


class Replacing:
    def is_due(self):
        return True

    def announce(self, rank):
        return f"{rank} heals"


def test_the_report_that_a_cell_sends_says_what_will_be_done(server):
    server.losses.recovery = Replacing()
    cell = CellRun(b"me", SubmitCell("r1", "x", (0, 2)), "cell-1", server.parts)
    server.scheduler.submit(cell, 0.0)
    server.scheduler.advance(0.0)
    server.losses.on_exit(pb.EngineExited(engine="2", pid=4711, exit_code=7), 50.0)
    server.losses.tick(60.0)
    cell.tick(60.0)
    events = server.sender.cell_events()
    (lost,) = (event for event in events if isinstance(event, RankFinished))
    assert lost.crash.outlook == "2 heals"
    assert server.losses.crashes[2].outlook == lost.crash.outlook
    assert CellNote("2 heals") in events


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
def witness(server):
    server.losses.witness = Witness()
    return server.losses.witness


CANCELLED = "Slurm job 12 was cancelled (CANCELLED by root)"


def test_the_loss_of_a_host_is_told_once_its_scheduler_was_heard(server, witness):
    server.hosts.on_gone("b")
    server.losses.tick(60.0)
    assert server.roster.ranks_in(EngineState.LOST) == []
    witness.answer(CANCELLED)
    server.losses.tick(60.1)
    assert server.roster.ranks_in(EngineState.LOST) == [2, 3]
    assert server.roster[2].reason.endswith(f": {CANCELLED}")


def test_what_ends_by_a_signal_is_told_with_what_the_scheduler_says(server, witness):
    server.losses.on_exit(pb.EngineExited(engine="1", pid=101, signal=15), 50.0)
    server.losses.tick(60.0)
    assert server.roster.ranks_in(EngineState.LOST) == []
    witness.answer(CANCELLED)
    server.losses.tick(60.1)
    assert server.roster[1].reason == CANCELLED
    assert server.losses.crashes[1].signal == 15


def test_what_a_living_agent_tells_is_not_put_down_to_its_node(server, witness):
    witness.down = {"a": "Slurm job 12: node a is down (Not responding)"}
    server.losses.on_exit(pb.EngineExited(engine="1", pid=101, signal=9), 50.0)
    server.hosts.on_gone("b")
    witness.answer("")
    server.losses.tick(60.0)
    assert "SIGKILL" in server.roster[1].reason
    assert "Slurm" not in server.roster[1].reason
    assert server.roster[2].reason.endswith(" host b is gone"), "its scheduler knows nothing"


def test_who_exits_with_a_code_needs_no_witness(server, witness):
    server.losses.on_exit(pb.EngineExited(engine="1", pid=101, exit_code=7), 50.0)
    server.losses.tick(60.0)
    assert server.roster.ranks_in(EngineState.LOST) == [1]
    assert witness.questions == []


def test_a_rank_that_is_silent_is_given_up_once_its_scheduler_was_heard(server, witness):
    for _ in range(2):
        server.losses.judge(Hearts(rank0=80.0), POLICY, 100.0)
    assert server.roster.ranks_in(EngineState.LOST) == []
    assert len(witness.questions) == 1
    witness.answer("Slurm job 12: node a is down")
    server.losses.judge(Hearts(rank0=80.0), POLICY, 100.1)
    assert " 20.1 s" in server.roster[0].reason
    assert server.roster[0].reason.endswith(": Slurm job 12: node a is down")


def test_a_silent_engine_waits_for_what_its_scheduler_says_of_its_host(server, witness):
    server.broken_hosts.add("b")
    server.hosts.on_gone("b")
    server.losses.judge(Hearts(rank2=80.0), POLICY, 100.0)
    witness.answer(CANCELLED)
    server.losses.judge(Hearts(rank2=80.0), POLICY, 100.1)
    assert server.roster.lost_ranks() == []
    server.losses.tick(100.1)
    assert server.roster.lost_ranks() == [2, 3]
    assert server.roster[2].reason.endswith(f" host b is gone: {CANCELLED}")


def test_the_loss_of_one_host_waits_for_no_other(server, witness):
    server.hosts.on_gone("b")
    witness.answer("")
    server.hosts.on_gone("a")
    server.losses.tick(60.0)
    assert server.roster.ranks_in(EngineState.LOST) == [2, 3]


def test_a_cell_is_told_that_the_end_of_its_job_nears(server, witness):
    news = "Slurm ends this job in 8 min (time limit)"
    witness.news = [news]
    server.losses.tick(60.0)
    assert witness.news, "nobody would have read it"
    cell = CellRun(b"me", SubmitCell("r1", "x"), "cell-1", server.parts)
    server.scheduler.submit(cell, 60.0)
    server.scheduler.advance(60.0)
    server.losses.tick(60.1)
    cell.tick(61.0)
    events = server.sender.cell_events()
    assert CellNote(news) in events
