"""What an engine says to the coordinator."""

from jupyter_dist.model.formed import Formed
from jupyter_dist.protocol.messages.parts import ErrorInfo, Message, Output
from jupyter_dist.protocol.messages.questions import Answer


class Hello(Message, frozen=True):
    """I am this rank of this generation; peers reach my communicator at `address`."""

    rank: int
    generation: int
    pid: int
    address: str = ""
    formed: tuple[Formed, ...] = ()
    """What frameworks have formed with other ranks before."""


class Ready(Message, frozen=True):
    """My communicator of this generation stands, and what frameworks had to form anew."""

    rank: int
    generation: int
    notes: tuple[str, ...] = ()
    """What the user should know: which variables belong to what was before."""


class NotReady(Message, frozen=True):
    """My communicator of this generation could not be formed."""

    rank: int
    generation: int
    reason: str


class CellOutput(Message, frozen=True):
    """What a rank said while it ran a cell; `offsets` count the bytes of stdout and stderr sent."""

    rank: int
    cell_id: str
    outputs: tuple[Output, ...]
    offsets: tuple[int, int] = (0, 0)


class CellResult(Message, frozen=True):
    """How a cell ended on a rank: ok, raised, interrupted or peer_failed."""

    rank: int
    cell_id: str
    status: str
    duration_s: float
    value_repr: str | None = None
    error: ErrorInfo | None = None
    outputs: tuple[Output, ...] = ()
    """What was said since the last CellOutput."""
    offsets: tuple[int, int] = (0, 0)


class ObjectsStored(Message, frozen=True):
    """The pushed names are in the namespace, or `problem` says why not."""

    rank: int
    request_id: str
    problem: str = ""


class ObjectFetched(Message, frozen=True):
    """A pulled object; its buffers follow as frames."""

    rank: int
    request_id: str
    problem: str = ""


class Attend(Message, frozen=True):
    """I take part in a meeting of these ranks; what I bring follows as frames.

    A meeting belongs to a cell. It is held as soon as all its ranks attend with one claim.
    """

    rank: int
    cell_id: str
    topic: str
    """The same on all ranks, and only once in a cell for the same ranks; as `objects 3`."""
    ranks: tuple[int, ...]
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


class LeaveMeeting(Message, frozen=True):
    """I do not wait any longer in this meeting."""

    rank: int
    cell_id: str
    topic: str
    ranks: tuple[int, ...]
    reason: str
    """What I did, following the words "rank 2"."""


class PutValue(Message, frozen=True):
    """Keep the frame that follows under this key until the generation ends."""

    rank: int
    generation: int
    key: str


class AwaitValue(Message, frozen=True):
    """Send me the value of this key, now or as soon as somebody has put it."""

    rank: int
    generation: int
    key: str


class WantService(Message, frozen=True):
    """Start this helper process on the host of a rank, unless this generation has it already.

    Its address becomes the value of the key `service_key` gives, as MessagePack of ServiceFound.
    """

    rank: int
    generation: int
    service: str
    """As jax: a name of frameworks.services."""
    at_rank: int = 0
    bind: str = ""
    """Address of that host to listen at; empty: any free port of its data path."""


class Answered(Message, frozen=True):
    """What a rank says to a Question."""

    rank: int
    request_id: str
    answer: Answer


ToCoordinator = (
    Hello
    | Ready
    | NotReady
    | CellOutput
    | CellResult
    | ObjectsStored
    | ObjectFetched
    | Attend
    | LeaveMeeting
    | PutValue
    | AwaitValue
    | WantService
    | Answered
)
