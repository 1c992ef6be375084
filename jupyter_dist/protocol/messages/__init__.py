"""Every message on the control channel. Read this package to know the protocol.

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
      | <--------------- JoinController --|  be an engine of an ipyparallel controller too
      | -- ControllerJoined ------------->|
      | -- TaskBegan, TaskEnded --------->|  a task of ipyparallel has the main thread
      | <-------------- LeaveController --|
      | -- ControllerLeft --------------->|
      | <---------------------- Regroup --|  say Hello again for a new generation
      | -- NoticesWanted ---------------->|  somebody wants to know before a host is taken away
      | <------------------ HeedNotices --|
      | <---------------- PreemptNotice --|  one will be; should_save() waits from now on
      | -- NoticePosition --------------->|
      | <-------------- SavePointChosen --|  the call at which all save
      | -- NoticeHandled ---------------->|
      | <------------------- NoticeOver --|
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
      | -- SendPiece * ------------------>|  what a large push is made of
      | <------------------- PieceTaken * |
      | <---------------- TransferMoved * |  how much of it has arrived where it goes
      | <------------------ PulledPiece * |  what a large pull is made of
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
      | -- StartController -------------->|  ranks as engines of ipyparallel
      | <-------------- ControllerReady --|
      | -- EndController ---------------->|
      | <-------------- ControllerEnded --|
      | -- StopCluster ------------------>|
      | <-------------- ClusterStopping --|

A message belongs to exactly one direction, so one for the other side is refused while decoding.
Everything about a communicator carries its generation; stale ones are dropped.
"""

from jupyter_dist.protocol.messages.from_client import (
    AskRanks,
    AwaitReady,
    EndController,
    Explain,
    FollowCell,
    FromClient,
    HealRanks,
    InterruptCell,
    ListCells,
    OutputSeen,
    PullObject,
    PushObjects,
    ReadCollectives,
    ReplayOutput,
    SendCode,
    SendPiece,
    SettleCode,
    ShrinkCluster,
    StartController,
    StopCluster,
    SubmitCell,
    SyncCode,
    TakePart,
    WatchTopology,
    WithdrawCell,
)
from jupyter_dist.protocol.messages.from_engine import (
    Answered,
    Attend,
    AwaitValue,
    CellOutput,
    CellResult,
    ControllerJoined,
    ControllerLeft,
    Hello,
    LeaveMeeting,
    NoticeHandled,
    NoticePosition,
    NoticesWanted,
    NotReady,
    ObjectFetched,
    ObjectsStored,
    PutValue,
    Ready,
    TaskBegan,
    TaskEnded,
    ToCoordinator,
    WantService,
)
from jupyter_dist.protocol.messages.parts import (
    CellEvent,
    CellNote,
    ErrorInfo,
    KeptCell,
    Message,
    Output,
    RankFinished,
    RankOutput,
    ServiceFound,
    service_key,
)
from jupyter_dist.protocol.messages.questions import (
    About,
    Answer,
    CompleteCode,
    Completions,
    Inspection,
    InspectName,
    ListNames,
    NoAnswer,
    ReadStacks,
)
from jupyter_dist.protocol.messages.to_client import (
    CellAdmitted,
    CellEvents,
    CellFollowed,
    CellInterruptSent,
    CellsListed,
    CellWaiting,
    ClusterReady,
    ClusterStopping,
    CodeLacking,
    CodeSettled,
    CodeTaken,
    CollectivesRead,
    ControllerEnded,
    ControllerReady,
    Explained,
    HealProgress,
    ObjectPulled,
    ObjectsPushed,
    OutputReplayed,
    PartTaken,
    PieceTaken,
    PulledPiece,
    RanksAnswered,
    RanksHealed,
    Refused,
    Shrunk,
    StartProgress,
    ToClient,
    TopologyChanged,
    TransferMoved,
)
from jupyter_dist.protocol.messages.to_engine import (
    AbortCommunicator,
    FetchObject,
    HeedNotices,
    JoinController,
    Leave,
    LeaveController,
    MeetingFailed,
    MeetingHeld,
    NoticeOver,
    PreemptNotice,
    Question,
    Regroup,
    RunCell,
    SavePointChosen,
    StoreObjects,
    ToEngine,
    ValueFound,
    Welcome,
)

__all__ = [
    "AbortCommunicator",
    "About",
    "Answer",
    "Answered",
    "AskRanks",
    "Attend",
    "AwaitReady",
    "AwaitValue",
    "CellAdmitted",
    "CellEvent",
    "CellEvents",
    "CellFollowed",
    "CellInterruptSent",
    "CellNote",
    "CellOutput",
    "CellResult",
    "CellWaiting",
    "CellsListed",
    "ClusterReady",
    "ClusterStopping",
    "CodeLacking",
    "CodeSettled",
    "CodeTaken",
    "CollectivesRead",
    "CompleteCode",
    "Completions",
    "ControllerEnded",
    "ControllerJoined",
    "ControllerLeft",
    "ControllerReady",
    "EndController",
    "ErrorInfo",
    "Explain",
    "Explained",
    "FetchObject",
    "FollowCell",
    "FromClient",
    "HealProgress",
    "HealRanks",
    "HeedNotices",
    "Hello",
    "InspectName",
    "Inspection",
    "InterruptCell",
    "JoinController",
    "KeptCell",
    "Leave",
    "LeaveController",
    "LeaveMeeting",
    "ListCells",
    "ListNames",
    "MeetingFailed",
    "MeetingHeld",
    "Message",
    "NoAnswer",
    "NotReady",
    "NoticeHandled",
    "NoticeOver",
    "NoticePosition",
    "NoticesWanted",
    "ObjectFetched",
    "ObjectPulled",
    "ObjectsPushed",
    "ObjectsStored",
    "Output",
    "OutputReplayed",
    "OutputSeen",
    "PartTaken",
    "PieceTaken",
    "PreemptNotice",
    "PullObject",
    "PulledPiece",
    "PushObjects",
    "PutValue",
    "Question",
    "RankFinished",
    "RankOutput",
    "RanksAnswered",
    "RanksHealed",
    "ReadCollectives",
    "ReadStacks",
    "Ready",
    "Refused",
    "Regroup",
    "ReplayOutput",
    "RunCell",
    "SavePointChosen",
    "SendCode",
    "SendPiece",
    "ServiceFound",
    "SettleCode",
    "ShrinkCluster",
    "Shrunk",
    "StartController",
    "StartProgress",
    "StopCluster",
    "StoreObjects",
    "SubmitCell",
    "SyncCode",
    "TakePart",
    "TaskBegan",
    "TaskEnded",
    "ToClient",
    "ToCoordinator",
    "ToEngine",
    "TopologyChanged",
    "TransferMoved",
    "ValueFound",
    "WantService",
    "WatchTopology",
    "Welcome",
    "WithdrawCell",
    "service_key",
]
