"""Agents on nodes where an orchestrator has workers: claimed, started, and given back."""

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from queue import SimpleQueue
from time import time
from typing import Any, NamedTuple, Protocol

from jupyter_dist.errors import StartFailed
from jupyter_dist.launch.batch.order import BatchOrder
from jupyter_dist.launch.files.join_file import read_join_file
from jupyter_dist.launch.files.plain_file import read_plain_file
from jupyter_dist.launch.orchestrators.talk import Report, Say
from jupyter_dist.launch.own_agent import start_words
from jupyter_dist.launch.workers.agent_starts import AgentStarts, Asked
from jupyter_dist.launch.workers.placement import AgentBootstrap, Worker, WorkerKind, WorkerLocation
from jupyter_dist.model.spec.batch import JobCause, JobSeen, JobState, ended

_CLAIM_SLICE_S = 1.0
"""Seconds between two reports on a claim that is still open."""
_START_SHARE, _TELLING_S = 0.8, 3.0
"""Before the start is given up it has to be said who has not answered, and agents to be ended."""
_RUNNING = JobSeen(JobState.RUNNING, "RUNNING")


class Loss(NamedTuple):
    """What an orchestrator says of a worker that holds an agent no longer."""

    worker: Worker
    cause: JobCause = JobCause.COMPLETED
    """COMPLETED: the agent has ended, and the worker is free; OTHER: it may be there still."""
    words: str = ""


class WorkerNodes(Protocol):
    """Nodes of an orchestrator; as a context manager it connects, and gives everything back."""

    @property
    def kind(self) -> WorkerKind:
        """How its workers are called."""

    @property
    def losses(self) -> SimpleQueue[Loss]:
        """Of workers that hold an agent."""

    def claim(self, timeout_s: float) -> str:
        """Wait for the nodes until the time is over; return why they are not there, or nothing."""

    @property
    def workers(self) -> Sequence[Worker]:
        """Those on the claimed nodes."""

    def node_of(self, worker: Any, site: WorkerLocation) -> Hashable:
        """Return on which node a worker is."""

    def submit(self, worker: Any, function: Callable[[], object]) -> Asked:
        """Have a worker call a function."""

    def watch(self, worker: Any, held: Asked) -> None:
        """Put a loss into the queue when a call that holds an agent has ended."""


def run_on_workers(
    claimed: AbstractContextManager[WorkerNodes], order: BatchOrder, say: Say
) -> None:
    """Have agents run on nodes of an orchestrator until the last of them has ended.

    Raises StartFailed or UsageError when they do not come; everything is given back then.
    """
    with claimed as nodes:
        while why := nodes.claim(_CLAIM_SLICE_S):
            say(Report(JobSeen(JobState.PENDING, f"PENDING: {why}")))
        say(Report(_RUNNING))
        starts = _start_agents(nodes, order, say)
        say(Report(_RUNNING))
        last = _await_ends(nodes, starts, say)
    say(Report(last))


def _start_agents(nodes: WorkerNodes, order: BatchOrder, say: Say) -> AgentStarts:
    """Start and invite an agent on each node, and have its worker hold it."""

    def tell(stage: str) -> None:
        say(Report(JobSeen(JobState.RUNNING, f"RUNNING, {stage}")))

    left_s = read_join_file(order.join_path).good_until_s - time()
    timeout_s = max(1.0, _START_SHARE * left_s - _TELLING_S)
    starts = AgentStarts(nodes.submit, nodes.workers, timeout_s, tell, nodes.kind)
    with starts:
        found = starts.find(order.slots, nodes.node_of)
        if found != order.spec.nodes:
            raise StartFailed(
                f"{order.spec.nodes} nodes were asked for, and {found} were given. Try again."
            )
        starts.begin(start_words(order.start_method), is_bound=True)
        starts.invite(read_plain_file(order.join_path))
    for each in starts.bootstraps:
        _hold(starts, each, nodes)
    return starts


def _hold(starts: AgentStarts, each: AgentBootstrap, nodes: WorkerNodes) -> None:
    starts.hold(each).add_done_callback(partial(nodes.watch, each.worker))


def _await_ends(nodes: WorkerNodes, starts: AgentStarts, say: Say) -> JobSeen:
    """Wait until no worker holds an agent, and tell of each that is lost; return how it ended."""
    left, lost = {each.worker: each for each in starts.bootstraps}, dict[str, str]()
    cause, words = JobCause.COMPLETED, ""
    while left:
        loss = nodes.losses.get()
        each = left.pop(loss.worker, None)
        if each is None or loss.cause is JobCause.COMPLETED:
            continue
        if loss.cause is JobCause.OTHER:
            left[each.worker] = each
            _hold(starts, each, nodes)
        cause, words, name = loss.cause, loss.words, each.name
        lost[name] = f"{name}: {words}"
        told = JobSeen(
            JobState.RUNNING, "RUNNING", lost_nodes=tuple(lost), lost_words="; ".join(lost.values())
        )
        say(Report(told))
    return ended(cause, f"{cause}: {words}" if words else "")
