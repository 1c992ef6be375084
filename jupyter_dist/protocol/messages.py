"""Every message on the control channel. Read this file to know the protocol.

    engine                              coordinator
      | -- Hello ------------------------>|  who I am; where peers can reach me
      | <---------------------- Welcome --|  the generation and every rank's address
      | -- Ready ------------------------>|  (or NotReady) my communicator stands
      | <---------------------- RunCell --|
      | -- CellOutput * ----------------->|  whole lines, display data
      | -- CellResult ------------------->|  done, with value or error
      | <---- StoreObjects, FetchObject --|  push, pull (buffers follow as frames)
      | -- ObjectsStored, ObjectFetched ->|
      | -- Attend, LeaveMeeting --------->|  ranks of a cell exchange objects, or compare calls
      | <---- MeetingHeld, MeetingFailed -|
      | -- PutValue, AwaitValue --------->|  what ranks must know to form a communicator
      | <--------------------- ValueFound |
      | -- WantService ------------------>|  a helper process; its address comes as a value
      | <------------ AbortCommunicator --|  a peer failed: leave the collective now
      | <--------------------- Question --|  what a rank can tell while it runs a cell
      | -- Answered --------------------->|
      | <---------------------- Regroup --|  say Hello again for a new generation
      | <------------------------ Leave --|

    client                              coordinator
      | -- AwaitReady ------------------->|
      | <--------------- StartProgress * -|  then ClusterReady, or Refused
      | -- SubmitCell ------------------->|
      | <------------------ CellWaiting * |  (the fence: who is not idle yet)
      | <----------------- CellAdmitted --|
      | <------------------ CellEvents * -|  outputs and results of ranks, in batches
      | -- OutputSeen * ----------------->|  so that a slow reader never fills memory
      | -- WithdrawCell, InterruptCell -->|
      | <----------- CellInterruptSent ---|
      | -- PushObjects, PullObject ------>|
      | <- ObjectsPushed, ObjectPulled ---|
      | -- SyncCode --------------------->|  a manifest of files (as a frame)
      | <------------------ CodeLacking --|  what each host does not have
      | -- SendCode * ------------------->|
      | <-------------------- CodeTaken * |  so that a slow host never fills memory
      | -- SettleCode ------------------->|
      | <------------------ CodeSettled --|
      | -- WatchTopology ---------------->|
      | <-------------- TopologyChanged --|
      | -- TakePart --------------------->|  to drive, to watch, or for one question only
      | <-------------------- PartTaken --|
      | -- ListCells, ReplayOutput ------>|  what the last cells have said
      | <--- CellsListed, OutputReplayed -|
      | -- FollowCell ------------------->|  the running cell, from its beginning on
      | <----- CellFollowed, CellEvents * |
      | -- AskRanks --------------------->|  names, stacks, completions
      | <---------------- RanksAnswered --|
      | -- Explain ---------------------->|
      | <-------------------- Explained --|
      | -- HealRanks, ShrinkCluster ----->|
      | <----------------- HealProgress * |
      | <---------- RanksHealed, Shrunk --|
      | -- ReadCollectives -------------->|
      | <--------------- CollectivesRead -|  the records of every rank (as frames)
      | -- StopCluster ------------------>|
      | <-------------- ClusterStopping --|

A message belongs to exactly one direction, so one for the other side is refused while decoding.
Everything about a communicator carries its generation; stale ones are dropped.
"""

from typing import Any

import msgspec

from jupyter_dist.model.crash import CrashReport
from jupyter_dist.model.error_policy import OnError
from jupyter_dist.model.formed import Formed, FrameworkPlan
from jupyter_dist.model.names import RankNames
from jupyter_dist.model.rank import RankInfo
from jupyter_dist.model.stacks import RankStacks
from jupyter_dist.model.topology import Topology


class Message(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """Base of every message; the class name is the name on the wire."""


class ErrorInfo(msgspec.Struct, frozen=True):
    """An exception as it crosses processes; reads as `ZeroDivisionError: division by zero`."""

    ename: str
    evalue: str
    traceback: tuple[str, ...] = ()
    peer_rank: int = -1
    """For PeerFailed: the rank that failed."""

    def __str__(self) -> str:
        return f"{self.ename}: {self.evalue}" if self.evalue else self.ename


class Output(msgspec.Struct, frozen=True):
    """One piece of output of a rank."""

    kind: str
    """stdout, stderr, display, update_display, clear_output, value or note."""
    text: str = ""
    """For streams and notes."""
    data: dict[str, Any] = {}
    """MIME bundle of display, update_display and value."""
    metadata: dict[str, Any] = {}
    display_id: str = ""


# --- questions that a rank answers while it runs a cell --------------------------------------


class ListNames(msgspec.Struct, frozen=True, tag=True):
    """Tell which variables you have: those of these patterns (`w*`); none given: all."""

    patterns: tuple[str, ...] = ()
    with_values: bool = True
    """Look at the values as well; else names and types only."""


class CompleteCode(msgspec.Struct, frozen=True, tag=True):
    """Tell what can follow at this place of a cell."""

    code: str
    cursor: int
    """In characters of `code`."""


class InspectName(msgspec.Struct, frozen=True, tag=True):
    """Tell what the object with this (dotted) name is."""

    name: str
    detail: int = 0
    """1: its source as well."""


class ReadStacks(msgspec.Struct, frozen=True, tag=True):
    """Tell what your threads are doing; agents look at ranks that do not answer themselves."""

    is_native: bool = False
    """Show calls of C and C++ too, where py-spy is there and may look."""


About = ListNames | CompleteCode | InspectName | ReadStacks


class Completions(msgspec.Struct, frozen=True, tag=True):
    """What can stand between `start` and `end`."""

    matches: tuple[str, ...]
    start: int
    end: int


class Inspection(msgspec.Struct, frozen=True, tag=True):
    """A MIME bundle; empty: there is no such object."""

    data: dict[str, str]


class NoAnswer(msgspec.Struct, frozen=True, tag=True):
    """The rank could not find out."""

    reason: str


Answer = RankNames | RankStacks | Completions | Inspection | NoAnswer


# --- engine -> coordinator -------------------------------------------------------------------


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


class ServiceFound(msgspec.Struct, frozen=True):
    """Where a helper process listens, or why it does not."""

    address: str
    problem: str = ""


def service_key(service: str, at_rank: int, bind: str) -> str:
    """Name the value that tells where a helper process listens."""
    return f"service {service} at {at_rank} {bind}".rstrip()


class Answered(Message, frozen=True):
    """What a rank says to a Question."""

    rank: int
    request_id: str
    answer: Answer


# --- coordinator -> engine -------------------------------------------------------------------


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


class RunCell(Message, frozen=True):
    """Run this code."""

    cell_id: str
    generation: int
    code: str
    ranks: tuple[int, ...]
    label: int = 0
    """Number for `In[label]`."""
    is_plain_python: bool = False
    """Nothing in it is IPython's own syntax, so that ranks need not look for it again."""
    is_checked: bool = False
    """Ranks compare each collective before they begin it."""


class StoreObjects(Message, frozen=True):
    """Put the objects in the frames into the namespace under these names.

    Large objects come as a file in the host's memory instead: `sizes` of the frames in `path`.
    """

    request_id: str
    names: tuple[str, ...]
    frame_counts: tuple[int, ...]
    path: str = ""
    sizes: tuple[int, ...] = ()


class FetchObject(Message, frozen=True):
    """Send back the object with this name."""

    request_id: str
    name: str


class AbortCommunicator(Message, frozen=True):
    """Whoever is in a collective of this generation leaves it now with PeerFailed."""

    generation: int
    failed_rank: int
    reason: str


class MeetingHeld(Message, frozen=True):
    """All are there; the frames of each of `ranks` follow, as many as `frame_counts` says."""

    cell_id: str
    topic: str
    ranks: tuple[int, ...] = ()
    frame_counts: tuple[int, ...] = ()


class MeetingFailed(Message, frozen=True):
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


class Question(Message, frozen=True):
    """Answer this now, also while a cell runs."""

    request_id: str
    about: About


class Regroup(Message, frozen=True):
    """Say Hello again for this generation; you are this rank from now on."""

    generation: int
    rank: int


class Leave(Message, frozen=True):
    """End this engine."""


# --- client -> coordinator -------------------------------------------------------------------


class AwaitReady(Message, frozen=True):
    """Tell me how the start goes, and when the cluster is ready."""

    request_id: str


class SubmitCell(Message, frozen=True):
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
    """Store the objects in the frames on these ranks (None: all)."""

    request_id: str
    names: tuple[str, ...]
    frame_counts: tuple[int, ...]
    ranks: tuple[int, ...] | None = None


class PullObject(Message, frozen=True):
    """Fetch one name from these ranks (None: all)."""

    request_id: str
    name: str
    ranks: tuple[int, ...] | None = None


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


class SettleCode(Message, frozen=True):
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


class TakePart(Message, frozen=True):
    """I am this process, and want to do this with the cluster; said once for all my lines."""

    request_id: str
    pid: int
    who: str
    """As a person knows it: `notebook train.ipynb`, `jupyter dist stop`."""
    role: str = "drive"
    """drive (run cells), watch (look only), or visit (one command, beside who drives)."""
    is_taking_over: bool = False
    """Drive even if another process does: it watches from then on."""


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
    """Go on without the lost ranks: the others are numbered anew, without gaps."""

    request_id: str


class ReadCollectives(Message, frozen=True):
    """Send me what the ranks' recorders hold: the last calls of each (0: all)."""

    request_id: str
    last: int = 0


class StopCluster(Message, frozen=True):
    """End every engine and agent, remove what they left, and end."""

    request_id: str


# --- coordinator -> client -------------------------------------------------------------------


class StartProgress(Message, frozen=True):
    """How far the start is: ranks that are ready, and what is being waited for."""

    request_id: str
    stage: str
    ready_ranks: int
    world_size: int


class ClusterReady(Message, frozen=True):
    """Every rank is idle in this generation."""

    request_id: str
    generation: int
    world_size: int
    log_dirs: dict[str, str] = {}
    """For each host, where what its ranks say is kept until the cluster stops."""
    notes: tuple[str, ...] = ()
    """What the user should know about the hosts, as differing versions; one sentence each."""


class Refused(Message, frozen=True):
    """A request could not be carried out; `error` names a class of errors.py."""

    request_id: str
    error: str
    reason: str


class CellWaiting(Message, frozen=True):
    """The fence is closed: why, in one sentence."""

    request_id: str
    reason: str


class CellAdmitted(Message, frozen=True):
    """The cell was sent to these ranks."""

    request_id: str
    cell_id: str
    ranks: tuple[int, ...]


class RankOutput(msgspec.Struct, frozen=True, tag=True):
    """Outputs of one rank, in its own order."""

    rank: int
    outputs: tuple[Output, ...]


class RankFinished(msgspec.Struct, frozen=True, tag=True):
    """One rank is done: ok, raised, interrupted, peer_failed, timed_out, deaf or lost.

    A deaf rank has not answered the interrupt, and is still busy.
    """

    rank: int
    status: str
    duration_s: float
    value_repr: str | None = None
    error: ErrorInfo | None = None
    crash: CrashReport | None = None
    """Of a lost rank, what is known about its end."""


class CellNote(msgspec.Struct, frozen=True, tag=True):
    """A sentence about the running cell: who waits for whom, who is deaf to the interrupt."""

    text: str


CellEvent = RankOutput | RankFinished | CellNote


class CellEvents(Message, frozen=True):
    """What happened in a cell since the last batch; `size_bytes` is to be acknowledged."""

    cell_id: str
    events: tuple[CellEvent, ...]
    size_bytes: int = 0
    is_last: bool = False
    """Every rank of the cell has finished; no more events follow."""


class CellInterruptSent(Message, frozen=True):
    """SIGINT is on its way to these ranks (empty: nothing was running)."""

    request_id: str
    ranks: tuple[int, ...]


class ObjectsPushed(Message, frozen=True):
    """Every rank stored the objects; `problems` holds rank -> reason where it did not."""

    request_id: str
    problems: dict[int, str]


class ObjectPulled(Message, frozen=True):
    """The object of each rank; frames follow, `frame_counts[i]` of them for `ranks[i]`."""

    request_id: str
    ranks: tuple[int, ...]
    frame_counts: tuple[int, ...]
    problems: dict[int, str]


class CodeLacking(Message, frozen=True):
    """What hosts lack of a manifest; a frame follows for each, as the agents give it."""

    request_id: str
    hosts: tuple[str, ...]
    incoming_dirs: tuple[str, ...]
    """Of the same hosts, where rsync may put files at their paths."""
    rsyncs: tuple[str, ...]
    """Of the same hosts, the path of rsync; empty where there is none."""
    problems: dict[str, str]
    """Hosts that cannot take part, with the reason."""
    absent: tuple[str, ...] = ()
    """Hosts that are lost: nobody waits for them."""


class CodeTaken(Message, frozen=True):
    """A chunk has arrived; `problems` has the hosts that could not keep it, with the reason."""

    request_id: str
    number: int
    problems: dict[str, str]


class CodeSettled(Message, frozen=True):
    """The code is in its place, except on the hosts in `problems`."""

    request_id: str
    removed: int
    """Files that are no longer there."""
    stale: dict[str, tuple[str, ...]]
    """Modules that ranks have imported from a file that has changed since, with the hosts."""
    problems: dict[str, str]


class TopologyChanged(Message, frozen=True):
    """The cluster at this moment."""

    request_id: str
    topology: Topology


class PartTaken(Message, frozen=True):
    """You may; `driver` is who runs cells at the moment, or empty."""

    request_id: str
    role: str
    driver: str = ""


class KeptCell(msgspec.Struct, frozen=True):
    """A cell whose outputs are kept."""

    cell_id: str
    label: str
    """As `In[3]`."""
    code: str
    ranks: tuple[int, ...]
    started_s: float
    """Time of day, in seconds since 1970."""
    is_running: bool
    kept_bytes: int = 0


class CellsListed(Message, frozen=True):
    """The cells that are kept, the oldest first."""

    request_id: str
    cells: tuple[KeptCell, ...]


class OutputReplayed(Message, frozen=True):
    """What is kept of a cell; `omitted_bytes` older outputs were dropped."""

    request_id: str
    cell: KeptCell
    events: tuple[CellEvent, ...]
    omitted_bytes: int = 0


class CellFollowed(Message, frozen=True):
    """This cell runs (None: none does); its events follow, from the beginning on where kept."""

    request_id: str
    cell: KeptCell | None
    omitted_bytes: int = 0


class RanksAnswered(Message, frozen=True):
    """What ranks have answered; `problems` has those that did not, with the reason."""

    request_id: str
    answers: dict[int, Answer]
    problems: dict[int, str]


class Explained(Message, frozen=True):
    """One sentence about the running cell (empty: nothing is odd), and how lost ranks ended."""

    request_id: str
    cell: str
    """Label of the running cell, or empty."""
    verdict: str
    crashes: tuple[CrashReport, ...]


class HealProgress(Message, frozen=True):
    """How far healing is, in a few words."""

    request_id: str
    stage: str


class RanksHealed(Message, frozen=True):
    """Every rank is there again, in this generation."""

    request_id: str
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
    """What frameworks have formed anew, and which variables belong to what was before."""


class Shrunk(Message, frozen=True):
    """The cluster has so many ranks now; `renumbered` has the new number of each old one."""

    request_id: str
    generation: int
    world_size: int
    renumbered: dict[int, int]
    notes: tuple[str, ...] = ()
    """What frameworks have formed anew, and which variables belong to what was before."""


class CollectivesRead(Message, frozen=True):
    """The records of each host's ranks; its frames follow, `frame_counts[i]` for `hosts[i]`.

    The frames of a host, one after the other, are MessagePack of model.records.HostRecords.
    """

    request_id: str
    hosts: tuple[str, ...]
    frame_counts: tuple[int, ...]
    problems: dict[str, str]
    """Hosts whose agent could not be asked, with the reason."""


class ClusterStopping(Message, frozen=True):
    """Everything has ended but the coordinator itself, which ends now."""

    request_id: str


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
ToEngine = (
    Welcome
    | RunCell
    | StoreObjects
    | FetchObject
    | AbortCommunicator
    | MeetingHeld
    | MeetingFailed
    | ValueFound
    | Question
    | Regroup
    | Leave
)
FromClient = (
    AwaitReady
    | SubmitCell
    | OutputSeen
    | WithdrawCell
    | InterruptCell
    | PushObjects
    | PullObject
    | SyncCode
    | SendCode
    | SettleCode
    | WatchTopology
    | TakePart
    | ListCells
    | ReplayOutput
    | FollowCell
    | AskRanks
    | Explain
    | HealRanks
    | ShrinkCluster
    | ReadCollectives
    | StopCluster
)
ToClient = (
    StartProgress
    | ClusterReady
    | Refused
    | CellWaiting
    | CellAdmitted
    | CellEvents
    | CellInterruptSent
    | ObjectsPushed
    | ObjectPulled
    | CodeLacking
    | CodeTaken
    | CodeSettled
    | TopologyChanged
    | PartTaken
    | CellsListed
    | OutputReplayed
    | CellFollowed
    | RanksAnswered
    | Explained
    | HealProgress
    | RanksHealed
    | Shrunk
    | CollectivesRead
    | ClusterStopping
)
