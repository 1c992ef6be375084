"""Every exception of jupyter-dist. Data lives in attributes, the next step in the text.

DistError
├── UsageError (also ValueError)      the caller's mistake; nothing was started or changed
│   ├── HostSpecError                 a host specification that cannot be read
│   ├── UnknownRanks                  ranks that the cluster does not have
│   ├── ClusterExists                 a running cluster already has that name
│   ├── NoCluster                     there is no such running cluster
│   ├── ClusterInUse                  another process owns the cluster; this one may only look
│   └── NotAllowed                    an AI agent asks for what no person has allowed
├── StartFailed                       the cluster did not become ready; everything was cleaned up
│   └── InstallFailed                 jupyter-dist could not be installed on a host
├── ClusterGone                       the coordinator ended or does not answer
├── ClusterUnreachable                the machine of the coordinator is out of reach; it goes on
├── HealFailed                        lost ranks could not be replaced, or left out
├── CellRefused                       the cell was not admitted: no rank ran it
├── CellOutOfSight                    the connection was cut while the cell ran; it goes on
├── CellFailed                        a cell did not end well on some rank (raised by the magics)
│   ├── RankRaised                    user code raised on a rank
│   ├── RankLost                      the process of a rank is gone
│   ├── CellInterrupted               someone interrupted the cell
│   └── CellTimedOut                  the cell's own time limit passed
├── TransferError                     an object could not be pushed or pulled
├── SyncFailed                        code could not be copied to some host
├── CheckpointError                   the state of the ranks could not be saved or restored
│   ├── CheckpointFailed              saving did not end well; earlier checkpoints are as they were
│   ├── CheckpointNotFound            there is no such checkpoint
│   ├── CheckpointDamaged             it is not what was saved: bytes differ, or parts are missing
│   └── CheckpointTooNew              a newer jupyter-dist wrote it
├── CommunicatorError                 a collective did not complete
│   ├── PeerFailed                    another rank raised, left or was lost meanwhile
│   ├── CollectiveMismatch            ranks called different collectives
│   ├── CollectiveMissed              ranks have finished the cell without this one
│   └── CollectiveTimeout             a peer did not come within the deadline
├── FrameworkError (also RuntimeError)  JAX, torch, CuPy, MPI, ipyparallel cannot be used so
├── ValuesDiffer (also AssertionError)  assert_equal found different values on ranks
└── WireError                         what arrived is not what was expected
    ├── VersionMismatch               the peer speaks another protocol version
    └── MalformedMessage              the bytes do not decode to a message for this side
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any


class ErrorCode(StrEnum):
    """What went wrong, for programs; texts are for people and may change."""

    DIST_ERROR = "dist_error"
    USAGE_ERROR = "usage_error"
    HOST_SPEC_ERROR = "host_spec_error"
    UNKNOWN_RANKS = "unknown_ranks"
    CLUSTER_EXISTS = "cluster_exists"
    NO_CLUSTER = "no_cluster"
    CLUSTER_IN_USE = "cluster_in_use"
    NOT_ALLOWED = "not_allowed"
    START_FAILED = "start_failed"
    INSTALL_FAILED = "install_failed"
    CLUSTER_GONE = "cluster_gone"
    CLUSTER_UNREACHABLE = "cluster_unreachable"
    HEAL_FAILED = "heal_failed"
    CELL_REFUSED = "cell_refused"
    CELL_OUT_OF_SIGHT = "cell_out_of_sight"
    CELL_FAILED = "cell_failed"
    RANK_RAISED = "rank_raised"
    RANK_LOST = "rank_lost"
    CELL_INTERRUPTED = "cell_interrupted"
    CELL_TIMED_OUT = "cell_timed_out"
    TRANSFER_ERROR = "transfer_error"
    SYNC_FAILED = "sync_failed"
    CHECKPOINT_ERROR = "checkpoint_error"
    CHECKPOINT_FAILED = "checkpoint_failed"
    CHECKPOINT_NOT_FOUND = "checkpoint_not_found"
    CHECKPOINT_DAMAGED = "checkpoint_damaged"
    CHECKPOINT_TOO_NEW = "checkpoint_too_new"
    COMMUNICATOR_ERROR = "communicator_error"
    PEER_FAILED = "peer_failed"
    COLLECTIVE_MISMATCH = "collective_mismatch"
    COLLECTIVE_MISSED = "collective_missed"
    COLLECTIVE_TIMEOUT = "collective_timeout"
    FRAMEWORK_ERROR = "framework_error"
    VALUES_DIFFER = "values_differ"
    WIRE_ERROR = "wire_error"
    VERSION_MISMATCH = "version_mismatch"
    MALFORMED_MESSAGE = "malformed_message"


_CODES = {code.replace("_", ""): code for code in ErrorCode}


class DistError(Exception):
    """Base of every exception that jupyter-dist raises on purpose.

    `code` is that of the class's own name; a class without one has that of its base.
    """

    code = ErrorCode.DIST_ERROR

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.code = _CODES.get(cls.__name__.lower(), cls.code)


class UsageError(DistError, ValueError):
    """The caller's mistake; nothing was started or changed."""


_HOSTS = (
    "HOST[:SLOTS][,HOST[:SLOTS]…] with SLOTS ≥ 1, where HOST may also be user@HOST, [fd00::1] or "
    "node[01-04], and join:N stands for N hosts that join on their own; for example localhost:4"
)


class HostSpecError(UsageError):
    """A host specification that cannot be read."""

    def __init__(
        self, given: str, problem: str, *, where: str = "hosts", accepted: str = _HOSTS
    ) -> None:
        self.given = given
        self.problem = problem
        super().__init__(f"{where} {given!r}: {problem}. Accepted: {accepted}.")


class UnknownRanks(UsageError):
    """Ranks that the cluster does not have."""

    def __init__(self, given: str, world_size: int) -> None:
        self.given = given
        self.world_size = world_size
        super().__init__(
            f"ranks {given!r}: this cluster has ranks 0-{world_size - 1}. "
            "Accepted: single ranks and ranges, for example 0,2-3."
        )


class ClusterExists(UsageError):
    """A running cluster already has that name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"a cluster named {name!r} is already running. Attach to it with "
            f"Cluster.attach({name!r}) or %dist_attach {name}, stop it with "
            f"`jupyter dist stop {name}`, or start another one with --name."
        )


class NoCluster(UsageError):
    """There is no such running cluster."""

    def __init__(self, name: str | None, running: Sequence[str] = ()) -> None:
        self.name = name
        self.running = tuple(running)
        what = "no cluster is running" if name is None else f"no cluster named {name!r} is running"
        if name is None and running:
            what = "more than one cluster is running, and none was named"
        known = f" Running now: {', '.join(running)}." if running else ""
        super().__init__(f"{what}.{known} Start one with %dist_start (or `jupyter dist start`).")


class ClusterInUse(UsageError):
    """Another process owns the cluster, or this client only observes it."""


class NotAllowed(UsageError):
    """An AI agent asks for what no person has allowed."""


class StartFailed(DistError):
    """The cluster did not become ready; everything that was started has been cleaned up."""


class InstallFailed(StartFailed):
    """jupyter-dist could not be installed on a host; `output` has the last lines of pip or ssh."""

    def __init__(self, host: str, reason: str, next_step: str = "", output: str = "") -> None:
        self.host = host
        self.reason = reason
        self.next_step = next_step
        self.output = output
        text = f"jupyter-dist could not be installed on {host}: {reason}. {next_step}"
        super().__init__(text.rstrip())


def no_free_port(host: str) -> str:
    """Say that an address has no port left to listen on, and where to look."""
    return (
        f"no port of {host} is free to listen on. See which programs hold them (ss -tln), or widen "
        "the range (sysctl net.ipv4.ip_local_port_range)."
    )


class ClusterGone(DistError):
    """The coordinator ended or does not answer."""

    def __init__(
        self, name: str, reason: str, next_step: str = "", *, may_go_on: bool = False
    ) -> None:
        self.name = name
        self.reason = reason
        self.may_go_on = may_go_on
        """It is only out of sight: what stood for it here has ended."""
        next_step = next_step or "Start a new one with %dist_start."
        super().__init__(f"cluster {name!r} is gone: {reason}. {next_step}")


class ClusterUnreachable(DistError):
    """The machine of the coordinator is out of reach; the cluster goes on there."""

    def __init__(self, name: str, reason: str, pid: int) -> None:
        self.name = name
        self.reason = reason
        super().__init__(
            f"cluster {name!r} goes on, but {reason}. What was asked for may have been done. The "
            "connection comes back on its own once that machine is reached: ask again then. "
            f"`kill {pid}` has this machine forget the cluster."
        )


class HealFailed(DistError):
    """Lost ranks could not be replaced, or left out; the others still have what they had."""


class CellRefused(DistError):
    """The cell was not admitted: no rank ran it."""


class CellOutOfSight(DistError):
    """The connection was cut while a cell ran; it goes on, and what it says is kept."""

    def __init__(self) -> None:
        super().__init__(
            "the connection to the cluster was cut while the cell ran (was this process stopped?). "
            "The cell goes on: %dist_attach shows it, and %dist_output what it has said."
        )


class CellFailed(DistError):
    """A cell did not end well on some rank; shown in one line, in place of the notebook's stack."""

    def _render_traceback_(self) -> list[str]:
        """Lines that IPython shows."""
        return [f"{type(self).__name__}: {self}"]


class RankRaised(CellFailed):
    """User code raised on a rank; renders as the user's own traceback, headed by its rank."""

    def __init__(
        self,
        rank: int,
        ename: str,
        evalue: str,
        traceback: Sequence[str],
        others: str = "",
        who: str = "",
    ) -> None:
        self.rank = rank
        self.ename = ename
        self.evalue = evalue
        self.traceback = tuple(traceback)
        self.others = others
        tail = f" ({others})" if others else ""
        what = f"{ename}: {evalue}" if evalue else ename
        who = who or f"rank {rank}"
        self.head = f"{who} raised" + (f"; {others}" if others else "")
        super().__init__(f"{who}: {what}{tail}")

    def _render_traceback_(self) -> list[str]:
        return [self.head, *(self.traceback or (f"{self.ename}: {self.evalue}",))]


class RankLost(CellFailed):
    """The process of a rank is gone; the other ranks keep their state.

    `crash` is the model.crash.CrashReport with what is known of its end, where there is one.
    """

    def __init__(
        self, rank: int, reason: str, others: str = "", crash: object = None, who: str = ""
    ) -> None:
        self.rank = rank
        self.reason = reason
        self.others = others
        self.crash = crash
        tail = f" ({others})" if others else ""
        super().__init__(f"{who or f'rank {rank}'} is lost: {reason}{tail}")


class CellInterrupted(CellFailed):
    """Someone interrupted the cell; the ranks in `unresponsive` do not answer and are busy."""

    def __init__(self, text: str, unresponsive: tuple[int, ...] = ()) -> None:
        self.unresponsive = unresponsive
        super().__init__(text)


class CellTimedOut(CellFailed):
    """The cell's own time limit passed."""


class TransferError(DistError):
    """An object could not be pushed or pulled."""


class SyncFailed(DistError):
    """Code could not be copied to some host; `problems` has the reason for each such host.

    `host` and `reason` are those of the first one.
    """

    def __init__(self, problems: Mapping[str, str], consequence: str) -> None:
        self.problems = dict(problems)
        self.host, self.reason = next(iter(self.problems.items()))
        told = "; ".join(f"{host}: {reason.rstrip('.')}" for host, reason in problems.items())
        super().__init__(f"{told}. {consequence}")


class CheckpointError(DistError):
    """The state of the ranks could not be saved or restored; the text names what, and where."""


class CheckpointFailed(CheckpointError):
    """Saving did not end well; earlier checkpoints are as they were."""


class CheckpointNotFound(CheckpointError):
    """There is no such checkpoint."""


class CheckpointDamaged(CheckpointError):
    """A checkpoint is not what was saved: bytes differ, or parts of it are missing."""


class CheckpointTooNew(CheckpointError):
    """A newer jupyter-dist wrote the checkpoint, in a format that this one cannot read."""


class CommunicatorError(DistError):
    """A collective did not complete."""


class PeerFailed(CommunicatorError):
    """Another rank raised, left or was lost while this one needed it.

    `rank` is -1 when the cause is not one rank (an interrupt, a time limit).
    """

    def __init__(self, rank: int, reason: str, who: str = "") -> None:
        self.rank = rank
        self.reason = reason
        super().__init__(f"{who or f'rank {rank}'} {reason}" if rank >= 0 else reason)


class CollectiveMismatch(CommunicatorError):
    """Ranks called different collectives; nothing was reduced or overwritten with wrong data.

    `rank` is the odd one, where one is; `who` names all that made each of the two calls, and
    `difference` says what sets calls apart that read the same.
    """

    def __init__(
        self,
        rank: int,
        call: str,
        peer: int,
        peer_call: str,
        who: tuple[str, str] = ("", ""),
        difference: str = " with other arguments",
    ) -> None:
        self.rank = rank
        self.call = call
        self.peer = peer
        self.peer_call = peer_call
        self.who = one, other = who[0] or f"rank {rank}", who[1] or f"rank {peer}"
        odd = f"{call}{difference}" if call == peer_call else call
        super().__init__(f"{one} called {odd}, but {other} called {peer_call}")


class CollectiveMissed(CommunicatorError):
    """Ranks have finished the cell, and will never come to a collective that others wait in."""

    def __init__(self, ranks: tuple[int, ...], text: str) -> None:
        self.ranks = ranks
        super().__init__(f"{text}. Let all ranks make the same calls in the same order.")


class CollectiveTimeout(CommunicatorError):
    """A peer did not come within the deadline."""


class FrameworkError(DistError, RuntimeError):
    """JAX, torch, CuPy, MPI or ipyparallel cannot be formed, or used, like this.

    The process goes on: where the framework itself would end it, or hang, this is raised before.
    """


class ValuesDiffer(DistError, AssertionError):
    """Ranks have different values where assert_equal wants the same; all of them raise it.

    `path` leads to the first difference, as `['layer'][3].weight`; `values` has what is there, by
    the ranks that have it, as `{"ranks 0-1,3": "1.5", "rank 2": "2.5"}`.
    """

    def __init__(self, call: str, path: str, about: str, values: Mapping[str, str]) -> None:
        self.call = call
        self.path = path
        self.values = dict(values)
        told = [
            f"{ranks} {'have' if ranks.startswith('ranks') else 'has'} {value}"
            for ranks, value in values.items()
        ]
        if len(told) > 8:
            told[8:] = [f"and {len(told) - 8} more"]
        what = f" ({about})" if about else ""
        where = f"values differ at {path}" if path else "the values differ"
        super().__init__(f"{call}: {where}{what}: {', '.join(told)}")


class WireError(DistError):
    """What arrived is not what was expected."""


class VersionMismatch(WireError):
    """The peer speaks another protocol version."""

    def __init__(self, ours: str, theirs: str) -> None:
        self.ours = ours
        self.theirs = theirs
        super().__init__(
            f"this side speaks {ours}, the other side {theirs}. "
            "Install the same jupyter-dist on both."
        )


class MalformedMessage(WireError):
    """The bytes do not decode to a message for this side."""
