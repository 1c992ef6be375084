"""What the coordinator says to a client."""

import msgspec

from jupyter_dist.errors import ErrorCode
from jupyter_dist.model.hosts.start_stage import HostProgress
from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.model.ranks.crash import CrashReport
from jupyter_dist.protocol.messages.parts import CellEvent, KeptCell, Message, Reply
from jupyter_dist.protocol.messages.questions import Answer


class StartProgress(Reply, frozen=True):
    """How far the start is: ranks that are ready, and what is being waited for."""

    stage: str
    ready_ranks: int
    world_size: int
    hosts: tuple[HostProgress, ...] = ()
    """How far each host is."""
    passed_s: dict[str, float] = msgspec.field(default_factory=dict)
    """How long what is over took, in seconds: `hosts`, `engines`, `communicator`."""


class ClusterReady(Reply, frozen=True):
    """Every rank is idle in this generation."""

    generation: int
    world_size: int
    log_dirs: dict[str, str] = msgspec.field(default_factory=dict)
    """For each host, where what its ranks say is kept until the cluster stops."""
    notes: tuple[str, ...] = ()
    """What the user should know about the hosts, as differing versions; one sentence each."""


class Refused(Reply, frozen=True):
    """A request could not be carried out."""

    code: ErrorCode
    reason: str


class CellWaiting(Reply, frozen=True):
    """The fence is closed: why, in one sentence."""

    reason: str


class CellAdmitted(Reply, frozen=True):
    """The cell was sent to these ranks."""

    cell_id: str
    ranks: tuple[int, ...]


class CellEvents(Message, frozen=True):
    """What happened in a cell since the last batch; `size_bytes` is to be acknowledged."""

    cell_id: str
    events: tuple[CellEvent, ...]
    size_bytes: int = 0
    is_last: bool = False
    """Every rank of the cell has finished; no more events follow."""


class CellInterruptSent(Reply, frozen=True):
    """SIGINT is on its way to these ranks (empty: nothing was running)."""

    ranks: tuple[int, ...]


class ObjectsPushed(Reply, frozen=True):
    """Every rank stored the objects; `problems` holds rank -> reason where it did not."""

    problems: dict[int, str]


class ObjectPulled(Reply, frozen=True):
    """The object of each rank; frames follow, `frame_counts[i]` of them for `ranks[i]`.

    Large objects have come as pieces before: `sizes` of the frames that they make up.
    """

    ranks: tuple[int, ...]
    frame_counts: tuple[int, ...]
    problems: dict[int, str]
    sizes: tuple[int, ...] = ()


class PieceTaken(Reply, frozen=True):
    """A piece of a large push has arrived."""

    number: int


class PulledPiece(Reply, frozen=True):
    """A piece of a large object, which follows as a frame; ObjectPulled comes after the last."""

    frame_bytes: int
    """Size of the frame that it is a part of; no piece goes over the end of a frame."""
    total_bytes: int
    """Of all pieces."""


class TransferMoved(Reply, frozen=True):
    """How much of a push or pull has arrived where it goes; told while that takes longer."""

    moved_bytes: int
    total_bytes: int
    """0: not known yet."""
    where: str = ""
    """What is going on, as `to 2 hosts`."""


class CodeLacking(Reply, frozen=True):
    """What hosts lack of a manifest; a frame follows for each, as the agents give it."""

    hosts: tuple[str, ...]
    problems: dict[str, str]
    """Hosts that cannot take part, with the reason."""
    absent: tuple[str, ...] = ()
    """Hosts that are lost: nobody waits for them."""


class CodeTaken(Reply, frozen=True):
    """A chunk has arrived; `problems` has the hosts that could not keep it, with the reason."""

    number: int
    problems: dict[str, str]


class CodeCommitted(Reply, frozen=True):
    """The code is in its place, except on the hosts in `problems`."""

    removed: int
    """Files that are no longer there."""
    stale: dict[str, tuple[str, ...]]
    """Modules that ranks have imported from a file that has changed since, with the hosts."""
    problems: dict[str, str]


class TopologyChanged(Reply, frozen=True):
    """The cluster at this moment."""

    topology: Topology


class RoleGranted(Reply, frozen=True):
    """You may; `owner` is who runs cells at the moment, or empty."""

    role: str
    owner: str = ""


class CellsListed(Reply, frozen=True):
    """The cells that are kept, the oldest first."""

    cells: tuple[KeptCell, ...]


class OutputReplayed(Reply, frozen=True):
    """What is kept of a cell; `omitted_bytes` older outputs were dropped."""

    cell: KeptCell
    events: tuple[CellEvent, ...]
    omitted_bytes: int = 0


class CellFollowed(Reply, frozen=True):
    """This cell runs (None: none does); its events follow, from the beginning on where kept."""

    cell: KeptCell | None
    omitted_bytes: int = 0


class RanksAnswered(Reply, frozen=True):
    """What ranks have answered; `problems` has those that did not, with the reason."""

    answers: dict[int, Answer]
    problems: dict[int, str]


class Explained(Reply, frozen=True):
    """One sentence about the running cell (empty: nothing is odd), and how lost ranks ended."""

    cell: str
    """Label of the running cell, or empty."""
    verdict: str
    crashes: tuple[CrashReport, ...]


class HealProgress(Reply, frozen=True):
    """How far healing is, in a few words."""

    stage: str


class RanksHealed(Reply, frozen=True):
    """Every rank is there again, in this generation."""

    generation: int
    replaced: dict[int, str]
    """New ranks, with the host that each is on now."""
    replayed: tuple[str, ...]
    """Labels of the setup cells that they have run."""
    problems: tuple[str, ...]
    """What did not go well in setup cells, one sentence each."""
    missing: dict[str, tuple[int, ...]]
    """Names that others have, with the new ranks that lack them."""
    notes: tuple[str, ...] = ()
    """What frameworks have formed again, and which variables belong to what was before."""


class Shrunk(Reply, frozen=True):
    """The cluster has so many ranks now; `renumbered` has the new number of each old one."""

    generation: int
    world_size: int
    renumbered: dict[int, int]
    notes: tuple[str, ...] = ()
    """What frameworks have formed again, and which variables belong to what was before."""


class CollectivesRead(Reply, frozen=True):
    """The records of each host's ranks; its frames follow, `frame_counts[i]` for `hosts[i]`.

    The frames of a host, one after the other, are MessagePack of model.records.HostRecords.
    """

    hosts: tuple[str, ...]
    frame_counts: tuple[int, ...]
    problems: dict[str, str]
    """Hosts whose agent could not be asked, with the reason."""


class ControllerReady(Reply, frozen=True):
    """These ranks are engines of the ipyparallel controller, each with its rank as id."""

    connection: bytes
    """JSON as in ipcontroller-client.json."""
    ranks: tuple[int, ...]


class ControllerEnded(Reply, frozen=True):
    """No ipyparallel controller runs, and no rank is an engine of one."""

    was_running: bool


class ClusterStopping(Reply, frozen=True):
    """Everything has ended but the coordinator itself, which ends now."""

    left: str = ""
    """Why a batch job may still be there, and how it is ended by hand; empty: none is."""


_Start = StartProgress | ClusterReady | Refused
_Cells = CellWaiting | CellAdmitted | CellEvents | CellInterruptSent
_Objects = ObjectsPushed | ObjectPulled | PieceTaken | PulledPiece | TransferMoved
_Code = CodeLacking | CodeTaken | CodeCommitted
_Views = TopologyChanged | RoleGranted | CellsListed | OutputReplayed | CellFollowed
_Ranks = RanksAnswered | Explained | HealProgress | RanksHealed | Shrunk | CollectivesRead
_Bridge = ControllerReady | ControllerEnded
ToClient = _Start | _Cells | _Objects | _Code | _Views | _Ranks | _Bridge | ClusterStopping
