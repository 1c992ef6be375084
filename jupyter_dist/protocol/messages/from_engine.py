"""What an engine says to the coordinator."""

from jupyter_dist.model.ranks.initialized import Formed
from jupyter_dist.model.ranks.preemption_agreement import Position
from jupyter_dist.protocol.messages.parts import ErrorInfo, Output, Report
from jupyter_dist.protocol.messages.questions import Answer


class Hello(Report, frozen=True):
    """I am this rank of this generation; peers reach my communicator at `address`."""

    generation: int
    pid: int
    address: str = ""
    formed: tuple[Formed, ...] = ()
    """What frameworks have formed with other ranks before."""
    shares_memory: bool = False
    """I have opened the coordinator's file in memory."""


class Ready(Report, frozen=True):
    """My communicator of this generation stands, and what frameworks had to form again."""

    generation: int
    notes: tuple[str, ...] = ()
    """What the user should know: which variables belong to what was before."""


class NotReady(Report, frozen=True):
    """My communicator of this generation could not be formed."""

    generation: int
    reason: str


class CellOutput(Report, frozen=True):
    """What a rank said while it ran a cell; `offsets` count the bytes of stdout and stderr sent."""

    cell_id: str
    outputs: tuple[Output, ...]
    offsets: tuple[int, int] = (0, 0)


class CellResult(Report, frozen=True, omit_defaults=True):
    """How a cell ended on a rank: ok, raised, interrupted or peer_failed."""

    cell_id: str
    status: str
    duration_s: float
    value_repr: str | None = None
    error: ErrorInfo | None = None
    outputs: tuple[Output, ...] = ()
    """What was said since the last CellOutput."""
    offsets: tuple[int, int] = (0, 0)
    report: bytes = b""
    """What a command has returned, as MessagePack."""


class ObjectsStored(Report, frozen=True):
    """The pushed names are in the namespace, or `problem` says why not."""

    request_id: str
    problem: str = ""


class ObjectFetched(Report, frozen=True):
    """A pulled object; its frames follow, or came in pieces or lie in the file: their `sizes`."""

    request_id: str
    problem: str = ""
    sizes: tuple[int, ...] = ()


class FetchedPiece(Report, frozen=True):
    """A piece of a large object, which follows as a frame; ObjectFetched comes after the last."""

    request_id: str
    offset: int
    """Where it begins in a file."""
    frame_bytes: int
    """Size of the frame that it is a part of."""


class JoinCollective(Report, frozen=True):
    """I take part in a meeting of these ranks; what I bring follows as frames.

    A meeting belongs to a cell. It is held as soon as all its ranks attend with one claim.
    """

    cell_id: str
    topic: str
    """The same on all ranks, and only once in a cell for the same ranks; as `objects 3`."""
    ranks: tuple[int, ...] | None
    """None: all that run the cell, in order (a list from each of them grows with both)."""
    kind: str
    """all_gather, gather, broadcast, scatter or barrier: who gets what is brought."""
    claim: str
    """What all must have in common, as a person reads it: `broadcast_object(root=0) #3`."""
    agreement: str = ""
    """What all must have in common and nobody needs to read."""
    site: str = ""
    """Where the cell called it."""
    root: int = -1
    frame_counts: tuple[int, ...] = ()
    """Of a scatter, how many frames are for each of `ranks`; else the number of frames."""
    timeout_s: float = 60.0


class WithdrawCollective(Report, frozen=True):
    """I do not wait any longer in this meeting."""

    cell_id: str
    topic: str
    ranks: tuple[int, ...] | None
    reason: str
    """What I did, following the words "rank 2"."""


class AskInput(Report, frozen=True):
    """I wait for what a person answers to this prompt; InputAnswered has it."""

    cell_id: str
    number: int
    """Counts the questions of this rank."""
    prompt: str
    is_password: bool = False
    """What is typed must not be seen."""
    place: str = ""
    """Where I am stopped in a debugger, if this is its prompt."""


class WithdrawInput(Report, frozen=True):
    """I do not wait for this answer any longer."""

    cell_id: str
    number: int


class PutValue(Report, frozen=True):
    """Keep the frame that follows under this key until the generation ends."""

    generation: int
    key: str


class AwaitValue(Report, frozen=True):
    """Send me the value of this key, now or as soon as a rank has put it."""

    generation: int
    key: str


class RequestService(Report, frozen=True):
    """Start this helper process on the host of a rank, unless this generation has it already.

    Its address becomes the value of the key `service_key` gives, as MessagePack of ServiceFound.
    """

    generation: int
    service: str
    """As jax: a name of frameworks.services."""
    at_rank: int = 0
    bind: str = ""
    """Address of that host to listen at; empty: any free port of its data path."""


class ControllerJoined(Report, frozen=True):
    """The ipyparallel controller has taken me in, or `problem` says why not."""

    request_id: str
    """Of the JoinController that is answered."""
    problem: str = ""


class ControllerLeft(Report, frozen=True):
    """I am no engine of an ipyparallel controller any more."""

    request_id: str = ""
    """Of the LeaveController that is answered; empty: it was not asked for, see `reason`."""
    reason: str = ""
    """Why I left by myself, following the words "rank 2"."""


WIDGET_EVENT = "an event of a widget"
"""The label of what is no task of ipyparallel, but has the main thread as one."""


class TaskBegan(Report, frozen=True):
    """A task between cells has the main thread; one that is over at once need not be told."""

    label: str
    """Of an ipyparallel task as `apply f` or `execute`; else WIDGET_EVENT."""
    running_s: float = 0.0
    """How long it runs already."""


class TaskEnded(Report, frozen=True):
    """The task that was told of is over."""


class CommSent(Report, frozen=True):
    """A message of a comm, a widget's mostly, for the page; its buffers follow as frames."""

    comm_id: str
    kind: str
    """open, msg, close; or shown: the widget is displayed next, and all that led to it was said."""
    content: bytes
    """JSON of what Jupyter's message has: `data`, `metadata`, and to open also `target_name`."""


class CommHandled(Report, frozen=True):
    """The messages from the page up to this number are done with."""

    comm_id: str
    """Of the last of them."""
    number: int
    outputs: tuple[Output, ...] = ()
    """What callbacks have said outside of output areas."""


class DapSaid(Report, frozen=True):
    """A message of the debugger for its client."""

    session: str
    content: bytes
    """As in TellDap."""


class DapLeft(Report, frozen=True):
    """The debugger of this session is out of this process again, or could not come into it."""

    session: str
    problem: str = ""


class WatchNotices(Report, frozen=True):
    """Whether this rank wants to know before a host is taken away; told when that changes."""

    is_always: bool
    """There is a function to call, or something marked to save, whatever cell runs."""
    has_marks: bool = False
    """There is something marked to save, and a directory for it."""
    cell_id: str = ""
    """The last cell that has called should_save()."""


class NoticePosition(Report, frozen=True):
    """Where I was when I heard of this notice; should_save() waits there for the save point."""

    number: int
    position: Position


class NoticeHandled(Report, frozen=True):
    """I have done what is to be done before the host is taken away, and go on."""

    number: int
    has_saved: bool = False
    """What was marked is saved."""
    problems: tuple[str, ...] = ()
    """What has not gone well, one sentence each."""
    has_tried: bool = False
    """I have tried to save what was marked, together with all ranks."""


class StoppedInDebugger(Report, frozen=True):
    """I am stopped in a debugger: until I have left it, no deadline may run out for that."""

    place: str
    """As `In[5]:7` or `/home/me/train.py:12`."""


class LeftDebugger(Report, frozen=True):
    """I go on."""


class Answered(Report, frozen=True):
    """What a rank says to a Question."""

    request_id: str
    answer: Answer


_Generations = Hello | Ready | NotReady
_Collectives = JoinCollective | WithdrawCollective
_Cells = CellOutput | CellResult | _Collectives
_Objects = ObjectsStored | ObjectFetched | FetchedPiece
_Values = PutValue | AwaitValue | RequestService
FromBridge = ControllerJoined | ControllerLeft | TaskBegan | TaskEnded
"""What engines say of ipyparallel."""
FromWidgets = CommSent | CommHandled
"""What comms of ranks have to say."""
FromDap = DapSaid | DapLeft
"""What debuggers have to say."""
FromNotices = WatchNotices | NoticePosition | NoticeHandled
"""What ranks say of hosts that will be taken away."""
FromDebugger = StoppedInDebugger | LeftDebugger
"""What ranks say of their stops."""
FromInput = AskInput | WithdrawInput
"""What ranks ask a person."""
FromSession = FromWidgets | FromInput | FromDebugger | FromDap
"""What a person has to do with while a cell runs."""
_Others = FromBridge | FromNotices | FromSession | Answered
FromRank = _Generations | _Cells | _Objects | _Values | _Others
"""All else."""
ToCoordinator = FromRank
