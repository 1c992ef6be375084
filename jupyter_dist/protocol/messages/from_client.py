"""What a client says to the coordinator."""

from jupyter_dist.model.spec.error_policy import OnError
from jupyter_dist.protocol.messages.parts import Command, Message, Request, Stops
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
    is_input_shared: bool = False
    """What a person answers is for every rank that asks the same."""
    command: Command | None = None
    """To be carried out in place of `code`, which is its title then."""
    shows_widgets: bool = False
    """I show widgets of ranks live, and ask for them with FollowComms."""
    stops: Stops | None = None
    """Where ranks stop in the debugger."""
    tells_slowest: bool = True
    """After minutes, say which rank the others wait for most."""


class OutputSeen(Message, frozen=True):
    """So many bytes of this cell's events have been taken in."""

    cell_id: str
    seen_bytes: int


class InputShown(Message, frozen=True):
    """I ask a person what you have asked me; said every second while that goes on."""

    cell_id: str
    rank: int
    number: int
    pid: int
    """0: I am on another machine than the coordinator."""


class AnswerInput(Message, frozen=True):
    """What the person has typed; None: the end of input (Ctrl-D)."""

    cell_id: str
    rank: int
    number: int
    text: str | None = None
    problem: str = ""
    """Why I cannot ask a person, in place of an answer; whatever ranks of this cell ask."""


class WithdrawCell(Message, frozen=True):
    """Forget my cell, push, pull or healing if it has not begun yet; a cell is interrupted then."""

    request_id: str
    """Of the request that is meant."""


class InterruptCell(Request, frozen=True):
    """Interrupt what runs on these ranks (None: all)."""

    ranks: tuple[int, ...] | None = None


class StopRanks(Request, frozen=True):
    """Have these ranks (None: all) stop in the debugger, those of them that run a cell."""

    ranks: tuple[int, ...] | None = None


class PushObjects(Request, frozen=True):
    """Store the objects in the frames on these ranks (None: all).

    Large objects lie in a file in memory instead, or follow in pieces: `sizes` of their frames.
    """

    names: tuple[str, ...]
    frame_counts: tuple[int, ...]
    ranks: tuple[int, ...] | None = None
    sizes: tuple[int, ...] = ()
    timeout_s: float | None = None
    """Of what ranks do; they are interrupted then."""
    file: str = ""
    """Name of that file, as control/memory_file.py opens it; empty: there is none."""


class SendPiece(Message, frozen=True):
    """A piece of my large push, which follows as a frame."""

    request_id: str
    """Of the PushObjects that it belongs to."""
    number: int
    """Counted from 1; pieces come in their order, and none goes over the end of a frame."""


class PullObject(Request, frozen=True):
    """Fetch what an expression is on these ranks (None: all)."""

    name: str
    """The expression; mostly a name."""
    ranks: tuple[int, ...] | None = None
    timeout_s: float | None = None
    cell_id: str = ""
    """Of the cell whose value it must be, as `Out[3]`; empty: of none."""
    most_bytes: int = 0
    """What is larger is refused; 0: nothing is."""
    files: tuple[str, ...] = ()
    """In memory, one for each of these ranks, which may write to it what is large."""


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


class ShowPresence(Request, frozen=True):
    """I am there, and know the cluster so: send me its topology if it is another one by now."""

    generation: int
    axes: int = 0
    """Version of its axes."""


class LocateRanks(Request, frozen=True):
    """Tell which ranks are on which host, and where along which axes."""


class NameAxes(Request, frozen=True):
    """Name axes over the ranks in place of those that there are; no names drop them."""

    names: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    """One may be -1, which follows from the number of ranks."""
    order: tuple[int, ...] = ()
    """The rank at each place, the last axis fastest; empty: 0, 1, 2, …"""


class ClaimRole(Request, frozen=True):
    """I am this process, and want to do this with the cluster; said once for all my lines."""

    pid: int
    who: str
    """As a person knows it: `notebook train.ipynb`, `jupyter dist stop`."""
    role: str = "own"
    """own (run cells), observe (look only), or visit (one command, beside the owner)."""
    is_taking_over: bool = False
    """Own it even if another process does: that one observes from then on."""
    kernel: str = ""
    """Jupyter Server's id of the kernel that this process is; empty: it is none."""
    keeps_cluster: bool = False
    """It shall live for a while without me, though it was to end with me."""
    machine: str = ""
    """Where this process is; empty: on the coordinator's machine."""


class Assist(Request, frozen=True):
    """I am an AI agent, or act for one: from now on I only look, and act as far as a grant goes."""

    pid: int
    who: str
    """As it calls itself."""
    token: str = ""
    """Of a grant that a person has given; empty: it has none."""


class GiveGrant(Request, frozen=True):
    """Let AI agents do these things for some time; who has its token may use it."""

    may: tuple[str, ...]
    """Some of ACTS."""
    for_s: float


class ListGrants(Request, frozen=True):
    """Tell which grants hold, and what was done by them."""


class RevokeGrants(Request, frozen=True):
    """Revoke this grant (0: all); cells that run already go on."""

    number: int = 0


class NoteAuto(Request, frozen=True):
    """Cells of my notebook run on every rank without saying so from now on, or no longer."""

    is_on: bool


class ListCells(Request, frozen=True):
    """Tell which cells are kept, with their outputs."""


class ReplayOutput(Request, frozen=True):
    """Send me what a cell has said; of those with this label (`In[3]`, or none) the last one."""

    label: str = ""
    since: int = 0
    """Only what came after this mark, as the last OutputReplayed has given it."""


class FollowCell(Request, frozen=True):
    """Send me, on a line of its own, the events of the running cell since it began and go on."""

    can_answer: bool = False
    """What its ranks ask can be asked here, before its own client is asked."""


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


class FollowComms(Request, frozen=True):
    """Send me, on this line, what comms of ranks have to say, also what they have said lately."""


class CommsSeen(Message, frozen=True):
    """So many bytes of that were taken in since I said so last."""

    seen_bytes: int


class SendComm(Request, frozen=True):
    """Hand a message from the page to a comm; its buffers follow as frames."""

    engine: str
    """Name of the process that has it, as it came with CommArrived."""
    comm_id: str
    number: int
    """Counted for each engine from 1."""
    kind: str
    """msg or close."""
    content: bytes
    """As in CommSent."""


class SettleComms(Request, frozen=True):
    """Tell me when all that I have sent to comms is on its way: so other lines come after it."""


class OpenDap(Request, frozen=True):
    """Load a debugger into this rank, and connect it with this line until DapEnded."""

    rank: int


class TellDap(Request, frozen=True):
    """Hand this message to the debugger that was opened by the request with the same id."""

    content: bytes
    """JSON of one message of the Debug Adapter Protocol."""


class CloseDap(Request, frozen=True):
    """Take the debugger that was opened by the request with this id out of its rank again."""


class AnnounceEnd(Request, frozen=True):
    """The job that runs here is to end: let ranks that want to know of it save first."""

    reason: str


class StopCluster(Request, frozen=True):
    """End every engine and agent, remove what they left, and end."""


_Input = InputShown | AnswerInput
_Cells = SubmitCell | OutputSeen | WithdrawCell | InterruptCell | StopRanks | _Input
_Objects = PushObjects | SendPiece | PullObject
CodeRequest = SyncCode | SendCode | CommitCode
"""The steps of a sync."""
_Views = WatchTopology | ShowPresence | ListCells | ReplayOutput | FollowCell
_Notebooks = ClaimRole | NoteAuto | Assist
_Grants = GiveGrant | ListGrants | RevokeGrants
_Axes = LocateRanks | NameAxes
_Ranks = _Axes | AskRanks | Explain | HealRanks | ShrinkCluster | ReadCollectives
_Bridge = StartController | EndController
_Widgets = FollowComms | CommsSeen | SendComm | SettleComms
_Dap = OpenDap | TellDap | CloseDap
_Others = _Dap | AwaitReady | AnnounceEnd | StopCluster
_Work = _Cells | _Objects | CodeRequest
FromClient = _Work | _Views | _Notebooks | _Grants | _Ranks | _Bridge | _Widgets | _Others
