"""What the coordinator says to an engine."""

from jupyter_dist.model.hosts.rank import RankInfo
from jupyter_dist.model.ranks.initialized import FrameworkPlan
from jupyter_dist.model.ranks.preemption_agreement import SavePoint
from jupyter_dist.protocol.messages.parts import Command, Message, Request
from jupyter_dist.protocol.messages.questions import About


class Welcome(Message, frozen=True):
    """Join this generation; `peers` are the communicator addresses in rank order."""

    generation: int
    info: RankInfo
    communicator: str
    peers: tuple[str, ...]
    key: bytes
    """Shared secret of this generation's communicator."""
    frameworks: tuple[FrameworkPlan, ...] = ()
    """What becomes of that which frameworks have formed; the same on all ranks."""
    hosts: tuple[str, ...] = ()
    """Of each rank, in rank order."""


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


class StoreObjects(Request, frozen=True):
    """Put the objects in the frames into the namespace under these names.

    Large objects come as a file in the host's memory instead: `sizes` of the frames in `path`.
    """

    names: tuple[str, ...]
    frame_counts: tuple[int, ...]
    path: str = ""
    sizes: tuple[int, ...] = ()


class FetchObject(Request, frozen=True):
    """Send back the object with this name."""

    name: str


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


class Leave(Message, frozen=True):
    """End this engine."""


_Cells = Welcome | RunCell | StoreObjects | FetchObject
_Collectives = AbortCommunicator | CollectiveCompleted | CollectiveFailed | ValueFound
_Bridge = JoinController | LeaveController
_Notices = HeedNotices | PreemptNotice | SavePointChosen | NoticeOver
ToEngine = _Cells | _Collectives | Question | Regroup | _Bridge | _Notices | Leave
