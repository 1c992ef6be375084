"""What is told of workers that hold agents, without any orchestrator."""

from concurrent.futures import Future
from queue import SimpleQueue

from jupyter_dist.launch.orchestrators.worker_job import Loss, _await_ends
from jupyter_dist.launch.workers.placement import AgentBootstrap, WorkerKind, WorkerLocation
from jupyter_dist.model.spec.batch import JobCause, JobState


class Starts:
    def __init__(self, names):
        site = WorkerLocation("a", "", (3, 12), "python", None)
        self.bootstraps = [
            AgentBootstrap(number, site, name, 1, None, "") for number, name in enumerate(names)
        ]
        self.held = []

    def hold(self, each):
        self.held.append(each.worker)
        return Future()


class Nodes:
    kind = WorkerKind()

    def __init__(self, *losses):
        self.losses = SimpleQueue()
        for loss in losses:
            self.losses.put(loss)

    def watch(self, worker, held):
        pass


def follow(*losses):
    reports, starts = [], Starts(["a", "b"])
    last = _await_ends(Nodes(*losses), starts, reports.append)
    return last, [report.seen for report in reports], starts


def test_agents_that_end_leave_a_job_that_is_completed():
    last, told, _ = follow(Loss(0), Loss(1))
    assert (last.state, last.cause, told) == (JobState.ENDED, JobCause.COMPLETED, [])


def test_a_loss_names_its_host_and_the_others_go_on():
    last, (seen,), _ = follow(Loss(1, JobCause.NODE_FAIL, "its node died"), Loss(0))
    assert (seen.state, seen.lost_nodes, seen.lost_words) == (
        JobState.RUNNING,
        ("b",),
        "b: its node died",
    )
    assert last.cause is JobCause.NODE_FAIL


def test_a_worker_that_may_be_there_is_asked_again():
    _, told, starts = follow(
        Loss(1, JobCause.OTHER, "out of reach"),
        Loss(1, JobCause.NODE_FAIL, "its node died"),
        Loss(1, JobCause.FAILED, "told twice"),
        Loss(0),
    )
    assert starts.held == [1]
    assert [seen.lost_words for seen in told] == ["b: out of reach", "b: its node died"]
