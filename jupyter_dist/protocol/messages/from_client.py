"""What a client says to the coordinator."""

from jupyter_dist.model.spec.error_policy import OnError
from jupyter_dist.protocol.messages.parts import Command, Message
from jupyter_dist.protocol.messages.questions import About


class AwaitReady(Message, frozen=True):
    """Tell me how the start goes, and when the cluster is ready."""

    request_id: str


class SubmitCell(Message, frozen=True, omit_defaults=True):
    """Run this cell on these ranks (None: all) as soon as the fence opens."""

    request_id: str
    code: str
    ranks: tuple[int, ...] | None = None
    timeout_s: float | None = None
    label: int = 0
    is_setup: bool = False
    is_plain_python: bool = False
    is_checked: bool = False
    on_error: OnError = OnError.RELEASE
    """What becomes of the others when a rank raises."""
    command: Command | None = None
    """To be carried out in place of `code`, which is its title then."""


class OutputSeen(Message, frozen=True):
    """So many bytes of this cell's events have been taken in."""

    cell_id: str
    seen_bytes: int


class WithdrawCell(Message, frozen=True):
    """Forget my cell, push, pull or healing if it has not begun yet; a cell is interrupted then."""

    request_id: str
    """Of the request that is meant."""


class InterruptCell(Message, frozen=True):
    """Interrupt what runs on these ranks (None: all)."""

    request_id: str
    ranks: tuple[int, ...] | None = None


class PushObjects(Message, frozen=True):
    """Store the objects in the frames on these ranks (None: all).

    Large objects follow in pieces instead: `sizes` of the frames that they make up.
    """

    request_id: str
    names: tuple[str, ...]
    frame_counts: tuple[int, ...]
    ranks: tuple[int, ...] | None = None
    sizes: tuple[int, ...] = ()
    timeout_s: float | None = None
    """Of what ranks do; they are interrupted then."""


class SendPiece(Message, frozen=True):
    """A piece of my large push, which follows as a frame."""

    request_id: str
    """Of the PushObjects that it belongs to."""
    number: int
    """Counted from 1; pieces come in their order, and none goes over the end of a frame."""


class PullObject(Message, frozen=True):
    """Fetch one name from these ranks (None: all)."""

    request_id: str
    name: str
    ranks: tuple[int, ...] | None = None
    timeout_s: float | None = None


class SyncCode(Message, frozen=True):
    """Compare the code on each host with a manifest, which follows as a frame.

    A sync that is not settled yet, of this client or another, ends with that.
    """

    request_id: str


class SendCode(Message, frozen=True):
    """Hand a chunk of contents, which follows as a frame, to the agents of these hosts."""

    request_id: str
    """Of the SyncCode that it belongs to."""
    number: int
    hosts: tuple[str, ...]


class CommitCode(Message, frozen=True):
    """Put what has arrived into its place on all hosts, or forget it."""

    request_id: str
    """Of the SyncCode that is meant."""
    is_wanted: bool = True


class WatchTopology(Message, frozen=True):
    """Send me the topology now, and again when it changed but not faster than this.

    `interval_s` 0 asks for one snapshot only.
    """

    request_id: str
    interval_s: float = 0.0


class ClaimRole(Message, frozen=True):
    """I am this process, and want to do this with the cluster; said once for all my lines."""

    request_id: str
    pid: int
    who: str
    """As a person knows it: `notebook train.ipynb`, `jupyter dist stop`."""
    role: str = "own"
    """own (run cells), observe (look only), or visit (one command, beside the owner)."""
    is_taking_over: bool = False
    """Own it even if another process does: that one observes from then on."""


class ListCells(Message, frozen=True):
    """Tell which cells are kept, with their outputs."""

    request_id: str


class ReplayOutput(Message, frozen=True):
    """Send me what a cell has said; of those with this label (`In[3]`, or none) the last one."""

    request_id: str
    label: str = ""


class FollowCell(Message, frozen=True):
    """Send me, on a line of its own, the events of the running cell since it began and go on."""

    request_id: str


class AskRanks(Message, frozen=True):
    """Ask these ranks (None: all), whether they run a cell or not."""

    request_id: str
    about: About
    ranks: tuple[int, ...] | None = None
    timeout_s: float = 2.0


class Explain(Message, frozen=True):
    """Tell what is the matter with the running cell, and with lost ranks."""

    request_id: str


class HealRanks(Message, frozen=True):
    """Replace these ranks (None: those that are lost); one that lives is killed first."""

    request_id: str
    ranks: tuple[int, ...] | None = None


class ShrinkCluster(Message, frozen=True):
    """Go on without the lost ranks: the others are renumbered, without gaps."""

    request_id: str


class ReadCollectives(Message, frozen=True):
    """Send me what the ranks' recorders hold: the last calls of each (0: all)."""

    request_id: str
    last: int = 0


class StartController(Message, frozen=True):
    """Have an ipyparallel controller, and every rank as an engine of it; one that runs is kept."""

    request_id: str
    timeout_s: float = 15.0
    """For the controller to start and all ranks that are there to join."""


class EndController(Message, frozen=True):
    """Let every rank leave the ipyparallel controller, and end it."""

    request_id: str
    is_left_to_others: bool = False
    """Only if no other client has asked for it."""


class StopCluster(Message, frozen=True):
    """End every engine and agent, remove what they left, and end."""

    request_id: str


_Cells = SubmitCell | OutputSeen | WithdrawCell | InterruptCell
_Objects = PushObjects | SendPiece | PullObject
CodeRequest = SyncCode | SendCode | CommitCode
"""The steps of a sync."""
_Views = WatchTopology | ClaimRole | ListCells | ReplayOutput | FollowCell
_Ranks = AskRanks | Explain | HealRanks | ShrinkCluster | ReadCollectives
_Bridge = StartController | EndController
FromClient = AwaitReady | _Cells | _Objects | CodeRequest | _Views | _Ranks | _Bridge | StopCluster
