import pytest
from fakes.agent_process import FakeAgent, FakeLauncher
from fakes.batch_job import PENDING, RUNNING, FakeJob

from jupyter_dist.coordinator.agents.arrivals import OTHERS_GRACE_S, Arrivals
from jupyter_dist.launch.batch.job_watch import JobWatch
from jupyter_dist.launch.launcher import Failure, LaunchProgress
from jupyter_dist.model.spec.cluster_spec import HostSpec

HOSTS = (HostSpec("here", launcher="local"), HostSpec("a", launcher="ssh"), HostSpec("b"))
JOINERS = (HostSpec("join-1", launcher="join"), HostSpec("join-2", launcher="join"))


class Party:
    """Arrivals with launchers that start nothing."""

    def __init__(self, log_dir, hosts=HOSTS):
        self.log_dir = log_dir
        self.local, self.ssh = FakeLauncher(), FakeLauncher()
        launchers = {"local": self.local, "auto": self.local, "ssh": self.ssh}
        self.arrivals = Arrivals(launchers, log_dir)
        self.arrivals.start(hosts)

    def agent(self, name):
        return {**self.local.agents, **self.ssh.agents}[name]

    def fail(self, name, reason, **more):
        self.agent(name).status = 1
        self.agent(name).failure = Failure(reason, **more)


@pytest.fixture
def party(tmp_path):
    return Party(tmp_path)


def test_each_host_is_started_by_its_launcher_and_joiners_by_nobody(tmp_path):
    party = Party(tmp_path, (*HOSTS, *JOINERS))
    assert list(party.local.agents) == ["here", "b"]
    assert list(party.ssh.agents) == ["a"]


def test_an_invitation_reaches_its_host_only(party):
    ticket = object()
    party.arrivals.invite("a", ticket)
    party.arrivals.invite("join-1", ticket)
    assert party.agent("a").invitations == [ticket]
    assert party.agent("b").invitations == []


# --- what is said while one waits ---


def test_those_that_have_not_joined_are_grouped_by_what_they_do(party):
    party.agent("here").stage = "Python starts"
    said = party.arrivals.describe_waiting
    assert said(["here", "a", "b"]).endswith(" here (Python starts); a, b (ssh connects)")
    assert said(["a"]).endswith(" a (ssh connects)")


@pytest.mark.parametrize(
    ("missing", "who"), [(["join-1"], "an agent"), (["join-1", "join-2"], "2 agents")]
)
def test_who_is_to_join_is_counted_and_told_a_command_to_copy(tmp_path, missing, who):
    party = Party(tmp_path, (*HOSTS, *JOINERS))
    path = party.arrivals.join_path = tmp_path / "my runtime" / "c.join"
    told = party.arrivals.describe_waiting(["a", *missing])
    assert f"a (ssh connects); {who} " in told
    assert told.endswith(f"--join '{path}'")
    assert party.arrivals.explain_missing(missing).startswith(f"{who} ")
    party.agent("a").failure = Failure("too slow")
    told = party.arrivals.explain_missing(["a", *missing])
    assert told.startswith(f"{who} ")
    assert told.endswith(f"{path}. a: too slow.")


# --- what is said when one does not come ---


@pytest.mark.parametrize("missing", [["a"], ["a", "join-1", "join-2"]])
def test_a_failure_is_told_at_once_where_nobody_else_is_under_way(tmp_path, missing):
    party = Party(tmp_path, (*HOSTS, *JOINERS))
    assert party.arrivals.problem(missing, 10.0) == ""
    party.fail("a", "no route", next_step="Go there.")
    assert party.arrivals.problem(["b"], 10.0) == "", "who has joined and ended is not missing"
    assert party.arrivals.problem(missing, 10.0) == "a: no route. Go there."


def test_failures_are_told_with_their_last_words_after_a_moment_for_the_others(party):
    party.fail("a", "no route", next_step="Go there")
    party.fail("b", "no Python", last_lines="sh: x\nsh: y")
    hosts = ["here", "a", "b"]
    assert [party.arrivals.problem(hosts, now_s) for now_s in (10.0, 9.9 + OTHERS_GRACE_S)] == [
        ""
    ] * 2
    told = party.arrivals.problem(hosts, 10.0 + OTHERS_GRACE_S)
    assert "a: no route. Go there.\nb: no Python.\n" in told
    assert told.endswith("\nsh: x\nsh: y")
    assert party.arrivals.explain_missing(["a"]) == "a: no route. Go there."


# --- logs ---


def test_the_tail_of_several_logs_names_each(party):
    (party.log_dir / "agent-a.log").write_text("one\n\ntwo\r\n")
    (party.log_dir / "agent-b.log").write_text("")
    (party.log_dir / "agent-here.log").write_text("".join(f"{n}\n" for n in range(100)))
    last = "\n".join(str(n) for n in range(70, 100))
    assert party.arrivals.log_tail([]) == f"[agent-a]\none\ntwo\n[agent-here]\n{last}"


def test_the_log_of_a_single_agent_stands_for_itself(tmp_path):
    party = Party(tmp_path, HOSTS[:1])
    (tmp_path / "agent-here.log").write_bytes(b"caf\xe9\n")
    assert party.arrivals.log_tail([]) == "caf\ufffd"


def test_the_log_of_an_agent_that_has_left_is_read_when_it_has_ended(party, monkeypatch):
    path = party.log_dir / "agent-a.log"
    path.write_text("Traceback:\n")

    def bring_the_rest(timeout_s):
        path.write_text("Traceback:\nImportError\n")
        return 0

    monkeypatch.setattr(party.agent("a"), "wait", bring_the_rest)
    monkeypatch.delattr(FakeAgent, "wait")  # of those that have not left none is waited for
    assert party.arrivals.log_tail(["a", "join-1"]) == "[agent-a]\nTraceback:\nImportError"


def test_logs_that_cannot_be_opened_are_no_reason_to_end(party):
    (party.log_dir / "agent-here.log").mkdir()  # as without a free file descriptor: OSError
    assert party.arrivals.log_tail([]) == ""


# --- the end ---


def test_all_or_some_are_asked_to_end(party):
    party.arrivals.terminate(["a"])
    assert {host: party.agent(host).told for host in ("a", "b")} == {"a": ["terminate"], "b": []}
    party.arrivals.terminate()
    assert [party.agent(name).told for name in ("here", "b")] == [["terminate"], ["terminate"]]


def test_only_those_that_do_not_end_are_killed(party):
    party.agent("a").is_unresponsive = True
    party.arrivals.terminate()
    party.arrivals.end(0.0)
    assert party.agent("a").told == ["terminate", "kill"]
    assert party.agent("b").told == ["terminate"]


def test_the_join_file_goes_with_the_end_and_may_be_gone_already(tmp_path):
    party = Party(tmp_path, JOINERS)
    party.arrivals.join_path = tmp_path / "c.join"
    party.arrivals.join_path.touch()
    for _ in range(2):
        party.arrivals.end(0.0)
        assert not party.arrivals.join_path.exists()


# --- a batch job ---


@pytest.fixture
def submitted(tmp_path):
    """Two hosts of a job that nobody has submitted; what is known of it is set by the test."""
    job = JobWatch(FakeJob, "the Slurm job")
    arrivals = Arrivals({}, tmp_path, job)
    arrivals.start((HostSpec("slurm-1", launcher="join"), HostSpec("slurm-2", launcher="join")))
    arrivals.join_path = tmp_path / "c.join"
    return arrivals


def test_hosts_of_a_job_wait_in_its_queue_with_the_schedulers_words(submitted):
    told, job = submitted.describe_waiting(["slurm-1", "slurm-2"]), submitted.job
    assert told.endswith(f"2 hosts of {job.label} ({job.words})")
    submitted.job.label, submitted.job.seen = "Slurm job 12", PENDING
    told = submitted.describe_waiting(["slurm-1"])
    assert told.endswith("1 host of Slurm job 12 (PENDING: Resources)")
    progress = submitted.progress("slurm-1")
    assert progress == LaunchProgress("Slurm job 12: PENDING: Resources", is_queued=True)
    submitted.job.seen, submitted.job.said = RUNNING, "one\nsrun: error\n"
    assert not submitted.progress("slurm-1").is_queued
    assert submitted.describe_waiting(["slurm-1"]).endswith(": srun: error)")


def test_a_job_that_has_ended_brings_nobody_any_more(submitted):
    assert submitted.problem(["slurm-1"], 10.0) == ""
    assert not submitted.has_ended("slurm-1")
    submitted.job.problem, submitted.job.said = "Slurm job 12 failed (FAILED)", "no module"
    told = submitted.problem(["slurm-1"], 10.0)
    assert told.startswith("Slurm job 12 failed (FAILED).\n")
    assert told.endswith("\nno module")
    assert submitted.problem([], 10.0) == ""
    assert submitted.progress("slurm-1").problem == submitted.job.problem
    assert submitted.log_tail([]) == "no module"
    assert submitted.why_not_back("slurm-1").endswith(f"; {submitted.job.problem}")
    assert submitted.has_ended("slurm-1")


def test_when_the_time_is_over_a_queue_or_the_nodes_are_to_blame(submitted):
    submitted.job.label, submitted.job.seen = "Slurm job 12", PENDING
    told = submitted.explain_missing(["slurm-1", "slurm-2"])
    assert told.startswith("Slurm job 12: PENDING: Resources. ")
    assert "--timeout 2h" in told
    submitted.job.seen, submitted.job.said = RUNNING, "no module"
    told = submitted.explain_missing(["slurm-2"])
    assert told.startswith("Slurm job 12: RUNNING; 1 agent ")
    assert "--job-dir DIR" in told
    assert told.endswith("\nno module")


@pytest.mark.parametrize(
    ("hosts", "is_cancelled"), [(None, True), (["slurm-1"], True), ([], False)]
)
def test_a_job_is_cancelled_as_a_whole_unless_all_its_agents_have_ended(
    submitted, hosts, is_cancelled
):
    cancelled = []
    submitted.job.cancel = lambda: cancelled.append(True)
    submitted.terminate(hosts)
    assert bool(cancelled) == is_cancelled


# --- the end of an agent ---


def test_the_end_of_an_agent_is_known_from_who_started_it(party):
    assert not party.arrivals.has_ended("a")
    party.fail("a", "it was killed")
    assert party.arrivals.has_ended("a")
    assert not party.arrivals.has_ended("elsewhere")
