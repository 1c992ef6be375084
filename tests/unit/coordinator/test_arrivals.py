import pytest
from fakes.agent_process import FakeLauncher
from fakes.batch_job import PENDING, RUNNING, FakeJob

from jupyter_dist.coordinator.arrivals import OTHERS_GRACE_S, Arrivals
from jupyter_dist.coordinator.job_watch import JobWatch
from jupyter_dist.launch.base import Approach, Failure, Invitation, Ports
from jupyter_dist.model.spec import HostSpec

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
    invitation = Invitation(
        wire="w",
        cluster="c",
        host="a",
        homes=("10.0.0.1",),
        ports=Ports(1, 2, 3),
        dial_timeout_s=1.0,
        ca_certificate=b"",
        certificate=b"",
        private_key=b"",
    )
    party.arrivals.invite("a", invitation)
    party.arrivals.invite("join-1", invitation)
    assert party.agent("a").invitations == [invitation]
    assert party.agent("b").invitations == []


# --- what is said while one waits ---


def test_hosts_are_grouped_by_what_they_do(party):
    party.agent("here").stage = "Python starts"
    told = party.arrivals.describe_waiting(["here", "a", "b"])
    assert told == "waiting for here (Python starts); a, b (ssh connects)"


def test_only_those_that_have_not_joined_are_named(party):
    assert party.arrivals.describe_waiting(["a"]) == "waiting for a (ssh connects)"


@pytest.mark.parametrize(
    ("missing", "who"), [(["join-1"], "an agent"), (["join-1", "join-2"], "2 agents")]
)
def test_who_is_to_join_is_told_how(tmp_path, missing, who):
    party = Party(tmp_path, (*HOSTS, *JOINERS))
    party.arrivals.join_path = tmp_path / "c.join"
    told = party.arrivals.describe_waiting(["a", *missing])
    how = f"{who} to join: jupyter dist agent --join {tmp_path}/c.join"
    assert told == f"waiting for a (ssh connects); {how}"


def test_the_command_can_be_copied_whatever_the_path_is(tmp_path):
    party = Party(tmp_path, JOINERS)
    party.arrivals.join_path = tmp_path / "my runtime" / "c.join"
    assert party.arrivals.describe_waiting(["join-1"]).endswith(
        f"--join '{tmp_path}/my runtime/c.join'"
    )


# --- what is said when one does not come ---


def test_nothing_is_wrong_while_all_run(party):
    assert party.arrivals.problem(["here", "a", "b"], 10.0) == ""


def test_a_host_that_fails_alone_is_told_after_a_moment_for_the_others(party):
    party.fail("a", "no route", next_step="Go there.", last_lines="ssh: x\nssh: y")
    assert party.arrivals.problem(["a", "b"], 10.0) == ""
    assert party.arrivals.problem(["a", "b"], 9.9 + OTHERS_GRACE_S) == ""
    told = party.arrivals.problem(["a", "b"], 10.0 + OTHERS_GRACE_S)
    assert told == "a: no route. Go there.\n--- a said last ---\nssh: x\nssh: y"


def test_when_all_that_are_missing_have_failed_it_is_told_at_once(party):
    party.fail("a", "no route")
    assert party.arrivals.problem(["a"], 10.0) == "a: no route."


def test_joiners_are_not_waited_for_then(tmp_path):
    party = Party(tmp_path, (*HOSTS, *JOINERS))
    party.fail("a", "no route")
    assert party.arrivals.problem(["a", "join-1", "join-2"], 10.0) == "a: no route."


def test_several_that_failed_are_all_told_with_their_last_words(party):
    party.fail("a", "no route")
    party.fail("b", "no Python", last_lines="sh: x")
    assert party.arrivals.problem(["a", "b"], 10.0) == (
        "2 hosts failed. a: no route.\nb: no Python.\n--- b said last ---\nsh: x"
    )


def test_an_agent_that_has_joined_and_ended_is_not_missing(party):
    party.fail("a", "whatever")
    assert party.arrivals.problem(["b"], 10.0) == ""


def test_when_the_time_is_over_each_missing_host_says_what_it_did_last(party):
    party.agent("b").failure = Failure("after ssh connects nothing more came")
    told = party.arrivals.explain_missing(["b"])
    assert told == "b: after ssh connects nothing more came."


@pytest.mark.parametrize(
    ("missing", "who"), [(["join-2"], "an agent"), (["join-1", "join-2"], "2 agents")]
)
def test_then_those_that_did_not_join_are_counted(tmp_path, missing, who):
    party = Party(tmp_path, (*HOSTS, *JOINERS))
    party.arrivals.join_path = tmp_path / "c.join"
    told = party.arrivals.explain_missing(missing)
    assert told == f"{who} did not join with {tmp_path}/c.join."
    party.agent("a").failure = Failure("too slow")
    told = party.arrivals.explain_missing(["a", *missing])
    assert told == f"{who} did not join with {tmp_path}/c.join. a: too slow."


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (Failure("it broke"), "it broke."),
        (Failure("it broke", "Mend it."), "it broke. Mend it."),
        (Failure("it broke", "Mend it"), "it broke. Mend it."),
    ],
)
def test_a_failure_is_a_sentence_and_a_next_step(failure, text):
    assert str(failure) == text


# --- logs ---


def test_the_tail_of_several_logs_names_each(party):
    (party.log_dir / "agent-a.log").write_text("one\n\ntwo\r\n")
    (party.log_dir / "agent-b.log").write_text("")
    (party.log_dir / "agent-here.log").write_text("".join(f"{n}\n" for n in range(100)))
    last = "\n".join(str(n) for n in range(70, 100))
    assert party.arrivals.log_tail() == f"[agent-a]\none\ntwo\n[agent-here]\n{last}"


def test_the_log_of_a_single_agent_stands_for_itself(tmp_path):
    party = Party(tmp_path, HOSTS[:1])
    (tmp_path / "agent-here.log").write_bytes(b"caf\xe9\n")
    assert party.arrivals.log_tail() == "caf\ufffd"


def test_logs_that_cannot_be_opened_are_no_reason_to_end(party):
    (party.log_dir / "agent-here.log").mkdir()  # as without a free file descriptor: OSError
    assert party.arrivals.log_tail() == ""


# --- the end ---


def test_all_or_some_are_asked_to_end(party):
    party.arrivals.terminate(["a"])
    assert [party.agent(name).told for name in ("here", "a", "b")] == [[], ["terminate"], []]
    party.arrivals.terminate()
    assert [party.agent(name).told for name in ("here", "b")] == [["terminate"], ["terminate"]]


def test_only_those_that_do_not_end_are_killed(party):
    party.agent("a").is_deaf = True
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
    told = submitted.describe_waiting(["slurm-1", "slurm-2"])
    assert told == "waiting for 2 hosts of the Slurm job (being submitted)"
    submitted.job.label, submitted.job.seen = "Slurm job 12", PENDING
    told = submitted.describe_waiting(["slurm-1"])
    assert told == "waiting for 1 host of Slurm job 12 (PENDING: Resources)"
    approach = submitted.approach("slurm-1")
    assert approach == Approach("Slurm job 12: PENDING: Resources", is_queued=True)
    submitted.job.seen, submitted.job.said = RUNNING, "one\nsrun: error\n"
    assert not submitted.approach("slurm-1").is_queued
    told = submitted.describe_waiting(["slurm-1"])
    assert told == "waiting for 1 host of Slurm job 12 (RUNNING, it says: srun: error)"


def test_a_job_that_has_ended_brings_nobody_any_more(submitted):
    assert submitted.problem(["slurm-1"], 10.0) == ""
    submitted.job.problem, submitted.job.said = "Slurm job 12 failed (FAILED)", "no module"
    told = "Slurm job 12 failed (FAILED).\n--- the job said last ---\nno module"
    assert submitted.problem(["slurm-1"], 10.0) == told
    assert submitted.problem([], 10.0) == ""
    assert submitted.approach("slurm-1").problem == "Slurm job 12 failed (FAILED)"
    assert submitted.log_tail() == "no module"
    assert submitted.why_not_back("slurm-1").endswith("; Slurm job 12 failed (FAILED)")


def test_when_the_time_is_over_a_queue_or_the_nodes_are_to_blame(submitted):
    submitted.job.label, submitted.job.seen = "Slurm job 12", PENDING
    told = submitted.explain_missing(["slurm-1", "slurm-2"])
    assert told.startswith("Slurm job 12: PENDING: Resources. It is being cancelled. A longer --ti")
    submitted.job.seen, submitted.job.said = RUNNING, "no module"
    told = submitted.explain_missing(["slurm-2"])
    assert told.startswith("Slurm job 12: RUNNING; 1 agent did not join. Each node must see the")
    assert told.endswith("--- the job said last ---\nno module")


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
    assert not party.arrivals.has_ended("one that joined by itself")


def test_with_its_job_every_agent_of_it_has_ended(submitted):
    assert not submitted.has_ended("slurm-1")
    submitted.job.problem = "Slurm job 12 was cancelled"
    assert submitted.has_ended("slurm-1")
