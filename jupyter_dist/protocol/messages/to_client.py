"""What the coordinator says to a client."""

import msgspec

from jupyter_dist.errors import ErrorCode
from jupyter_dist.model.hosts.axes import NO_AXES, Axes
from jupyter_dist.model.hosts.start_stage import HostProgress
from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.model.ranks.crashes.crash import CrashReport
from jupyter_dist.protocol.messages.parts import (
    CellEvent,
    Grant,
    KeptCell,
    KernelRole,
    Message,
    Output,
    Reply,
)
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
    axes: Axes = NO_AXES


class Refused(Reply, frozen=True):
    """A request could not be carried out."""

    code: ErrorCode
    reason: str


class CellWaiting(Reply, frozen=True):
    """The fence is closed: why, in one sentence."""

    reason: str


class CellEvents(Message, frozen=True):
    """What happened in a cell since the last batch; `size_bytes` is to be acknowledged."""

    cell_id: str
    events: tuple[CellEvent, ...]
    size_bytes: int = 0
    is_last: bool = False
    """Every rank of the cell has finished; no more events follow."""
    request_id: str = ""
    """In the first batch for its client: the request by which the cell came."""
    ranks: tuple[int, ...] = ()
    """There, too: the ranks that it was sent to."""


class AskPerson(Message, frozen=True):
    """A rank waits for what a person answers to this; say InputShown, and then AnswerInput."""

    cell_id: str
    rank: int
    number: int
    prompt: str
    is_password: bool = False
    is_for_all: bool = False
    """The answer is for every rank that asks the same."""
    who: str = ""
    """Of the prompt of a debugger, the ranks that a command is for, and where they are."""


class InputOver(Message, frozen=True):
    """This question needs no answer any more: its rank waits no longer, or another one is asked."""

    cell_id: str
    rank: int
    number: int


class CellInterruptSent(Reply, frozen=True):
    """SIGINT is on its way to these ranks (empty: nothing was running)."""

    ranks: tuple[int, ...]


class RanksStopping(Reply, frozen=True):
    """These ranks will stop in the debugger (empty: none of them runs a cell)."""

    ranks: tuple[int, ...]


class ObjectsPushed(Reply, frozen=True):
    """Every rank stored the objects; `problems` holds rank -> reason where it did not."""

    problems: dict[int, str]


class ObjectPulled(Reply, frozen=True):
    """The object of each rank; frames follow, `frame_counts[i]` of them for `ranks[i]`.

    Large objects came in pieces before, or lie in the files that were named for their ranks.
    """

    ranks: tuple[int, ...]
    frame_counts: tuple[int, ...]
    problems: dict[int, str]
    sizes: dict[int, tuple[int, ...]] = msgspec.field(default_factory=dict)
    """Of the frames of large objects, by rank."""


class FileUnreachable(Reply, frozen=True):
    """The file of a push cannot be opened from here: send what is in it."""


class PieceTaken(Reply, frozen=True):
    """A piece of a large push has arrived."""

    number: int


class PulledPiece(Reply, frozen=True):
    """A piece of a large object, which follows as a frame; ObjectPulled comes after the last."""

    rank: int
    frame_bytes: int
    """Size of the frame that it is a part of; no piece goes over the end of a frame."""


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


class RanksLocated(Reply, frozen=True):
    """Where the ranks are."""

    hosts: dict[str, tuple[int, ...]]
    """The ranks of each host, lost ones too."""
    axes: Axes


class RoleGranted(Reply, frozen=True):
    """You may; `owner` is who runs cells at the moment, or empty."""

    role: str
    owner: str = ""
    kernels: tuple[KernelRole, ...] = ()
    """Notebooks that own or observe the cluster."""


class GrantGiven(Reply, frozen=True):
    """It holds from now on; its token is shown only once."""

    grant: Grant
    token: str


class GrantsListed(Reply, frozen=True):
    """Those that hold; of RevokeGrants those that were revoked."""

    grants: tuple[Grant, ...]


class CellsListed(Reply, frozen=True):
    """The cells that are kept, the oldest first."""

    cells: tuple[KeptCell, ...]


class OutputReplayed(Reply, frozen=True):
    """What is kept of a cell; `omitted_bytes` older outputs were dropped."""

    cell: KeptCell
    events: tuple[CellEvent, ...]
    omitted_bytes: int = 0
    mark: int = 0
    """What comes later is sent by ReplayOutput with `since` of this."""


class CellFollowed(Reply, frozen=True):
    """This cell runs (None: none does); its events follow, from the beginning on where kept."""

    cell: KeptCell | None
    omitted_bytes: int = 0


class RanksAnswered(Reply, frozen=True):
    """What ranks have answered; `problems` has those that did not, with the reason."""

    answers: dict[int, Answer]
    problems: dict[int, str]


class EndAnnounced(Reply, frozen=True):
    """Ranks have handled that a job is to end, or their time for it is over."""

    outcome: str
    """As notices tell it; empty: no rank wants to know."""


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


class CommArrived(Reply, frozen=True):
    """A message of a comm of this process; its buffers follow as frames."""

    engine: str
    rank: int
    comm_id: str
    kind: str
    """As in CommSent."""
    content: bytes
    """As in CommSent."""


class CommAnswered(Reply, frozen=True):
    """The process has done with the messages up to this number."""

    engine: str
    rank: int
    comm_id: str
    """Of the last of them."""
    number: int
    outputs: tuple[Output, ...] = ()
    """What callbacks have said outside of output areas."""


class CommsSettled(Reply, frozen=True):
    """All that came before the request has gone on to the processes that have the comms."""


class CommsEnded(Reply, frozen=True):
    """Nothing of this process's comms (empty: of any) is told, or handed to it, any more."""

    engine: str
    rank: int
    reason: str
    """Why, as a sentence about it: `rank 2 is lost: …`."""


class DapSpoke(Reply, frozen=True):
    """A message of the debugger that this request has opened."""

    content: bytes
    """As in TellDap."""


class DapEnded(Reply, frozen=True):
    """The debugger that this request has opened is gone."""

    rank: int
    reason: str = ""
    """Why, as a sentence about it: `rank 2 is lost: …`; empty: the client has ended it."""


class ClusterStopping(Reply, frozen=True):
    """Everything has ended but the coordinator itself, which ends now."""

    left: str = ""
    """Why a batch job may still be there, and how it is ended by hand; empty: none is."""


_Start = StartProgress | ClusterReady | Refused
_Cells = CellWaiting | CellEvents | CellInterruptSent | RanksStopping | AskPerson | InputOver
_Objects = ObjectsPushed | ObjectPulled | FileUnreachable | PieceTaken | PulledPiece | TransferMoved
_Code = CodeLacking | CodeTaken | CodeCommitted
_Views = TopologyChanged | RanksLocated | RoleGranted | CellsListed | OutputReplayed | CellFollowed
_Grants = GrantGiven | GrantsListed
_Ranks = RanksAnswered | Explained | HealProgress | RanksHealed | Shrunk | CollectivesRead
_Bridge = ControllerReady | ControllerEnded
_Widgets = CommArrived | CommAnswered | CommsSettled | CommsEnded
_Dap = DapSpoke | DapEnded
_Others = _Bridge | _Widgets | _Dap | EndAnnounced | ClusterStopping
ToClient = _Start | _Cells | _Objects | _Code | _Views | _Grants | _Ranks | _Others
