"""What a client says to the coordinator."""

from jupyter_dist.model.spec.error_policy import OnError
from jupyter_dist.protocol.messages.parts import Command, Message, Request
from jupyter_dist.protocol.messages.questions import About


class AwaitReady(Request, frozen=True):
    """Tell me how the start goes, and when the cluster is ready."""


class SubmitCell(Request, frozen=True, omit_defaults=True):
    """Run this cell on these ranks (None: all) as soon as the fence opens."""

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


class InterruptCell(Request, frozen=True):
    """Interrupt what runs on these ranks (None: all)."""

    ranks: tuple[int, ...] | None = None


class PushObjects(Request, frozen=True):
    """Store the objects in the frames on these ranks (None: all).

    Large objects follow in pieces instead: `sizes` of the frames that they make up.
    """

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


class PullObject(Request, frozen=True):
    """Fetch one name from these ranks (None: all)."""

    name: str
    ranks: tuple[int, ...] | None = None
    timeout_s: float | None = None


class SyncCode(Request, frozen=True):
    """Compare the code on each host with a manifest, which follows as a frame.

    A sync that is not settled yet, of this client or another, ends with that.
    """


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


class WatchTopology(Request, frozen=True):
    """Send me the topology now, and again when it changed but not faster than this.

    `interval_s` 0 asks for one snapshot only.
    """

    interval_s: float = 0.0


class ClaimRole(Request, frozen=True):
    """I am this process, and want to do this with the cluster; said once for all my lines."""

    pid: int
    who: str
    """As a person knows it: `notebook train.ipynb`, `jupyter dist stop`."""
    role: str = "own"
    """own (run cells), observe (look only), or visit (one command, beside the owner)."""
    is_taking_over: bool = False
    """Own it even if another process does: that one observes from then on."""


class ListCells(Request, frozen=True):
    """Tell which cells are kept, with their outputs."""


class ReplayOutput(Request, frozen=True):
    """Send me what a cell has said; of those with this label (`In[3]`, or none) the last one."""

    label: str = ""


class FollowCell(Request, frozen=True):
    """Send me, on a line of its own, the events of the running cell since it began and go on."""


class AskRanks(Request, frozen=True):
    """Ask these ranks (None: all), whether they run a cell or not."""

    about: About
    ranks: tuple[int, ...] | None = None
    timeout_s: float = 2.0


class Explain(Request, frozen=True):
    """Tell what is the matter with the running cell, and with lost ranks."""


class HealRanks(Request, frozen=True):
    """Replace these ranks (None: those that are lost); one that lives is killed first."""

    ranks: tuple[int, ...] | None = None


class ShrinkCluster(Request, frozen=True):
    """Go on without the lost ranks: the others are renumbered, without gaps."""


class ReadCollectives(Request, frozen=True):
    """Send me what the ranks' recorders hold: the last calls of each (0: all)."""

    last: int = 0


class StartController(Request, frozen=True):
    """Have an ipyparallel controller, and every rank as an engine of it; one that runs is kept."""

    timeout_s: float = 15.0
    """For the controller to start and all ranks that are there to join."""


class EndController(Request, frozen=True):
    """Let every rank leave the ipyparallel controller, and end it."""

    is_left_to_others: bool = False
    """Only if no other client has asked for it."""


class StopCluster(Request, frozen=True):
    """End every engine and agent, remove what they left, and end."""


_Cells = SubmitCell | OutputSeen | WithdrawCell | InterruptCell
_Objects = PushObjects | SendPiece | PullObject
CodeRequest = SyncCode | SendCode | CommitCode
"""The steps of a sync."""
_Views = WatchTopology | ClaimRole | ListCells | ReplayOutput | FollowCell
_Ranks = AskRanks | Explain | HealRanks | ShrinkCluster | ReadCollectives
_Bridge = StartController | EndController
FromClient = AwaitReady | _Cells | _Objects | CodeRequest | _Views | _Ranks | _Bridge | StopCluster
