"""Start agents on nodes through workers that run functions: the client's side.

ipyparallel's engines are workers like others; its client is the user's: it is not imported here.
"""

from collections.abc import Callable, Iterable
from typing import Any, Self

from msgspec.structs import replace

from jupyter_dist.cluster.spec.host_list import hosts_of_job
from jupyter_dist.cluster.spec.specification import specify
from jupyter_dist.errors import UsageError
from jupyter_dist.launch.files.join_file import join_path
from jupyter_dist.launch.files.plain_file import read_plain_file
from jupyter_dist.launch.own_agent import start_words
from jupyter_dist.launch.workers.agent_starts import AgentStarts, Asked, Submit
from jupyter_dist.launch.workers.placement import Worker, WorkerKind
from jupyter_dist.model.spec.cluster_spec import JOIN, MOST_SLOTS, ClusterSpec, HostSpec, check_spec
from jupyter_dist.options.start_options import JobOptions, StartOptions
from jupyter_dist.protocol.messages import StartProgress

_DEFAULT_TIMEOUT_S = 60.0
"""Default start time-out: unlike other joins, no one has to start agents by hand."""
_THEIRS = ("python", "ssh", "tunnel", "install", "wheelhouse", *JobOptions.__annotations__)
"""Wishes about how an agent gets onto a host, which workers decide."""
_ENGINES = WorkerKind(
    "engine",
    "ipyparallel",
    "client.queue_status() tells what they do, client.send_signal('SIGINT') interrupts it; a "
    "client that is closed, or has lost them, has to be connected again",
)

OnProgress = Callable[[StartProgress], None]


class WorkerStart:
    """A start on the nodes of some workers, from the first question to the last agent."""

    def __init__(
        self,
        submit: Submit,
        workers: Iterable[Worker],
        draft: ClusterSpec,
        on_progress: OnProgress | None,
        kind: WorkerKind = WorkerKind(),  # noqa: B008  (a constant)
    ) -> None:
        self._draft = draft
        self._on_progress = on_progress
        self._agents = AgentStarts(submit, workers, draft.timeout_s, self._say, kind)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self._agents.give_up()

    def begin(self, slots: int) -> ClusterSpec:
        """Start an agent on each node; return the cluster that they are for."""
        nodes = self._agents.find(slots or None)
        spec = check_spec(replace(self._draft, hosts=hosts_of_job(JOIN, nodes, HostSpec(""))))
        self._agents.begin(start_words(spec.start_method))
        return spec

    def bring(self, cluster: str) -> None:
        """Hand every agent its invitation to this cluster, and wait until all have joined."""
        # The coordinator counts its time from its own beginning, too.
        self._agents.allow(self._draft.timeout_s)
        self._agents.invite(read_plain_file(join_path(cluster)))

    def _say(self, stage: str) -> None:
        if self._on_progress is not None:
            self._on_progress(StartProgress("", stage, 0, 0))


def start_on_workers(
    submit: Submit,
    workers: Iterable[Worker],
    slots: int,
    on_progress: OnProgress | None,
    given: StartOptions,
) -> WorkerStart:
    """Return the start of a cluster on the nodes of these workers; raises UsageError."""
    draft = _draft_cluster(slots, given, "workers, which")
    if not callable(submit):
        raise UsageError(
            f"submit {submit!r} is not accepted. Give what has a worker run a function, and "
            "returns a future, as lambda worker, function: executors[worker].submit(function)."
        )
    try:
        found = dict.fromkeys(workers)
    except TypeError:
        raise UsageError(
            f"workers {workers!r} are not accepted. Give what names each, and is hashable: a list "
            "of numbers, addresses or executors."
        ) from None
    if not found:
        raise UsageError("there are no workers. Give one for each node at least.")
    return WorkerStart(submit, found, draft, on_progress)


def start_on_ipyparallel(
    client: Any, slots: int, on_progress: OnProgress | None, given: StartOptions
) -> WorkerStart:
    """Return the start of a cluster on the hosts of ipyparallel's engines; raises UsageError."""
    draft = _draft_cluster(slots, given, "ipyparallel, whose engines")
    try:
        engines = sorted(client.ids)
    except (AttributeError, TypeError):
        raise UsageError(
            f"{client!r} is no client of ipyparallel. Give what ipyparallel.Client(), or "
            "connect_client_sync() of an ipyparallel.Cluster, gives."
        ) from None
    if not engines:
        raise UsageError(
            "this ipyparallel cluster has no engines. Start some first; "
            "client.wait_for_engines(n) waits until n of them are there."
        )

    def submit(engine: int, function: Callable[[], object]) -> Asked:
        asked: Asked = client[engine].apply_async(function)
        # A future's own would not tell the engine.
        asked.cancel = lambda: client.abort([asked], targets=engine, block=False)  # type: ignore[method-assign]
        return asked

    return WorkerStart(submit, engines, draft, on_progress, _ENGINES)


def _draft_cluster(slots: int, given: StartOptions, whose: str) -> ClusterSpec:
    """Check everything that a start is asked for, before anybody is asked; raises UsageError."""
    refused = [name for name in _THEIRS if given.get(name) is not None]
    if refused:
        raise UsageError(
            f"{', '.join(refused)}: not accepted together with {whose} start our agents with their "
            "own Python. Leave it out."
        )
    if not isinstance(slots, int) or not 0 <= slots <= MOST_SLOTS:
        raise UsageError(
            f"slots {slots!r} are not accepted. Give 1-{MOST_SLOTS} ranks for each host, or 0 for "
            "as many as there are workers."
        )
    if given.get("timeout_s") is None:
        given = {**given, "timeout_s": _DEFAULT_TIMEOUT_S}
    return specify(f"{JOIN}:1", **given)
