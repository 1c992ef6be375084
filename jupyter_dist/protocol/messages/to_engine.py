"""What the coordinator says to an engine."""

from jupyter_dist.model.hosts.axes import NO_AXES, Axes
from jupyter_dist.model.hosts.rank import RankInfo
from jupyter_dist.model.ranks.initialized import FrameworkPlan
from jupyter_dist.model.ranks.preemption_agreement import SavePoint
from jupyter_dist.protocol.messages.parts import Command, Message, Request, Stops
from jupyter_dist.protocol.messages.questions import About
from jupyter_dist.protocol.places import Place, Runs


class Welcome(Message, frozen=True):
    """Join this generation.

    `peers` has the places of all ranks if they are few, else of those that collectives connect to;
    AwaitValue tells of any other (see places.py).
    """

    generation: int
    info: RankInfo
    communicator: str
    peers: dict[int, Place]
    key: bytes
    """Shared secret of this generation's communicator."""
    frameworks: tuple[FrameworkPlan, ...] = ()
    """What becomes of that which frameworks have formed; the same on all ranks."""
    hosts: Runs = ()
    """Which ranks have one address but for the port."""
    axes: Axes = NO_AXES


class TakeAxes(Message, frozen=True):
    """These are the axes over the ranks from now on, for cells that come after this."""

    axes: Axes


class RunCell(Message, frozen=True, omit_defaults=True):
    """Run this code, as these ranks do (None: all; a list for each of them grows with both)."""

    cell_id: str
    generation: int
    code: str
    ranks: tuple[int, ...] | None = None
    label: int = 0
    """Number for `In[label]`."""
    is_plain_python: bool = False
    """Nothing in it is IPython's own syntax, so that ranks need not look for it again."""
    is_checked: bool = False
    """Ranks compare each collective before they begin it."""
    command: Command | None = None
    """To be carried out in place of `code`."""
    shows_widgets: bool = False
    """Who has sent it shows widgets of ranks live."""
    stops: Stops | None = None
    """Where you stop in the debugger, if you are one of its ranks."""


class StoreObjects(Request, frozen=True):
    """Put the objects in the frames into the namespace under these names.

    Large objects lie in a file instead: `sizes` of its frames. `path` is one of the host's agent,
    `file` one in memory that the coordinator holds.
    """

    names: tuple[str, ...]
    frame_counts: tuple[int, ...]
    path: str = ""
    sizes: tuple[int, ...] = ()
    file: str = ""


class FetchObject(Request, frozen=True):
    """Send back what this expression is; what is large is better written to `file`."""

    name: str
    file: str = ""
    """In memory, held by the client."""
    cell_id: str = ""
    """Of the cell whose value it must be; empty: of none."""
    most_bytes: int = 0
    """What is larger is refused; 0: nothing is."""


class AbortCommunicator(Message, frozen=True):
    """Whoever is in a collective of this generation leaves it now with PeerFailed."""

    generation: int
    failed_rank: int
    reason: str


class CollectiveCompleted(Message, frozen=True):
    """All are there; the frames of each of `ranks` follow, as many as `frame_counts` says."""

    cell_id: str
    topic: str
    ranks: tuple[int, ...] = ()
    frame_counts: tuple[int, ...] = ()


class CollectiveFailed(Message, frozen=True):
    """This meeting cannot take place."""

    cell_id: str
    topic: str
    kind: str
    """mismatch, timeout, absent (a rank has finished the cell), left, or refused (too large)."""
    ranks: tuple[int, ...]
    """Those that it is about: the odd ones, the missing, the one that left."""
    text: str
    """What they called (mismatch), or did, following the words "rank 2"."""
    others: tuple[int, ...] = ()
    """Of a mismatch, those that called something else."""
    others_text: str = ""


class InputAnswered(Message, frozen=True):
    """What a person has typed; None: the end of input, or `problem` says why there is no answer."""

    number: int
    """Of the AskInput."""
    text: str | None = None
    problem: str = ""


class ValueFound(Message, frozen=True):
    """The value of this key follows as a frame."""

    generation: int
    key: str


class Question(Request, frozen=True):
    """Answer this now, also while a cell runs."""

    about: About


class Regroup(Message, frozen=True):
    """Say Hello again for this generation; you are this rank from now on."""

    generation: int
    rank: int


class JoinController(Request, frozen=True):
    """Become an engine of this ipyparallel controller; now, also within a cell.

    A rank that is a member already leaves that controller first.
    """

    connection: bytes
    """JSON as in ipcontroller-engine.json; `interface` has an address that this host reaches.

    Empty: there will be a controller soon; make ready for it, and do not answer.
    """
    rank: int
    """The id to ask for: an engine within a cell or a task may not know its new rank yet."""


class LeaveController(Request, frozen=True):
    """Be no engine of an ipyparallel controller any more; now, also within a cell."""


class HeedNotices(Message, frozen=True):
    """Somebody wants to know before a host is taken away: do not end with SIGTERM meanwhile."""

    is_wanted: bool


class PreemptNotice(Message, frozen=True):
    """A host will be taken away; answer at once with your NoticePosition, also within a cell."""

    number: int
    text: str
    """Who will be taken away, and why."""
    left_s: float
    """So much time there is to save."""
    tells_jax: bool = False
    """Tell JAX of it, too, where it is formed; one rank is enough."""


class SavePointChosen(Message, frozen=True):
    """This is the call of should_save() at which all ranks save."""

    number: int
    """Of the notice."""
    point: SavePoint


class NoticeOver(Message, frozen=True):
    """All ranks have handled this notice, or had their time for it."""

    number: int


class CommReceived(Message, frozen=True):
    """A message of a comm from the page, whose buffers follow as frames; answer CommHandled."""

    comm_id: str
    number: int
    kind: str
    """msg or close."""
    content: bytes
    """As in CommSent."""


class HoldDeadlines(Message, frozen=True):
    """Some ranks are in a debugger (or none is any more): your deadlines stand still meanwhile."""

    is_held: bool


class StopNow(Message, frozen=True):
    """Stop in the debugger where you are in your cell."""


class StartDap(Message, frozen=True):
    """Load a debugger and say what it says; DapLeft tells when it is gone."""

    session: str


class HearDap(Message, frozen=True):
    """A message of the client for the debugger of this session."""

    session: str
    content: bytes
    """As in TellDap."""


class EndDap(Message, frozen=True):
    """Take the debugger of this session out again; a rank that it has stopped goes on."""

    session: str


class Leave(Message, frozen=True):
    """End this engine."""


_Cells = Welcome | TakeAxes | RunCell | StoreObjects | FetchObject | InputAnswered
_Collectives = AbortCommunicator | CollectiveCompleted | CollectiveFailed | ValueFound
_Bridge = JoinController | LeaveController
_Notices = HeedNotices | PreemptNotice | SavePointChosen | NoticeOver
AboutDap = StartDap | HearDap | EndDap
"""What a client of a debugger asks for."""
_Debugger = HoldDeadlines | StopNow | AboutDap
_Others = Question | Regroup | CommReceived | Leave
ToEngine = _Cells | _Collectives | _Bridge | _Notices | _Debugger | _Others
