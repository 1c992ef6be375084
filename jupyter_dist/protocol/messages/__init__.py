"""Every message on the control channel. Read this package to know the protocol.

    engine                              coordinator
      | -- Hello ------------------------>|  who I am; where peers can reach me
      | <---------------------- Welcome --|  the generation, and where peers are
      | -- Ready ------------------------>|  (or NotReady) my communicator stands
      | <--------------------- TakeAxes --|  axes were named, or dropped
      | <---------------------- RunCell --|
      | -- CellOutput * ----------------->|  whole lines, display data
      | -- CellResult ------------------->|  done, with value or error
      | <---- StoreObjects, FetchObject --|  push, pull (buffers follow as frames)
      | -- FetchedPiece * --------------->|  what is large and has no file in memory
      | -- ObjectsStored, ObjectFetched ->|
      | -- JoinCollective --------------->|  ranks of a cell exchange objects, or compare calls
      | -- WithdrawCollective ----------->|
      | <---------- CollectiveCompleted --|  or CollectiveFailed
      | -- AskInput --------------------->|  a person is asked by the client of the cell
      | <---------------- InputAnswered --|
      | -- WithdrawInput ---------------->|
      | <---------------------- StopNow --|
      | -- StoppedInDebugger ------------>|  deadlines stand still until all have left it
      | <---------------- HoldDeadlines --|
      | -- LeftDebugger ----------------->|
      | -- PutValue, AwaitValue --------->|  what ranks must know to form a communicator
      | <--------------------- ValueFound |
      | -- RequestService --------------->|  a helper process; its address comes as a value
      | <------------ AbortCommunicator --|  a peer failed: leave the collective now
      | <--------------------- Question --|  what a rank can tell while it runs a cell
      | -- Answered --------------------->|
      | <--------------- JoinController --|  be an engine of an ipyparallel controller too
      | -- ControllerJoined ------------->|
      | -- TaskBegan, TaskEnded --------->|  a task of ipyparallel has the main thread
      | <-------------- LeaveController --|
      | -- ControllerLeft --------------->|
      | <---------------------- Regroup --|  say Hello again for a new generation
      | -- CommSent * ------------------->|  comms of widgets: what they say to the page,
      | <----------------- CommReceived * |  and the page to them
      | -- CommHandled * ---------------->|
      | <---------------- StartDap --|  for a client that may be anywhere
      | -- DapSaid * --------------->|  messages of the Debug Adapter Protocol
      | <----------------- HearDap * |
      | <------------------ EndDap --|
      | -- DapLeft ----------------->|
      | -- WatchNotices ----------------->|  this rank wants to know before a host is taken away
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
      | <------------------ CellEvents * -|  it was sent to its ranks; what they say, in batches
      | -- OutputSeen * ----------------->|  so that a slow reader never fills memory
      | <-------------------- AskPerson --|  one question of its ranks after the other
      | -- InputShown * ----------------->|
      | -- AnswerInput ------------------>|
      | <-------------------- InputOver --|
      | -- WithdrawCell, InterruptCell -->|
      | <----------- CellInterruptSent ---|
      | -- StopRanks -------------------->|  ranks that run a cell stop in the debugger
      | <------------------ RanksStopping |
      | -- PushObjects, PullObject ------>|
      | <-------------- FileUnreachable --|  what is large lies in a file in memory, and else
      | -- SendPiece * ------------------>|  comes in pieces
      | <------------------- PieceTaken * |
      | <---------------- TransferMoved * |  how much of it has arrived where it goes
      | <------------------ PulledPiece * |  what is large and has no file in memory
      | <- ObjectsPushed, ObjectPulled ---|
      | -- SyncCode --------------------->|  a manifest of files (as a frame)
      | <------------------ CodeLacking --|  what each host does not have
      | -- SendCode * ------------------->|
      | <-------------------- CodeTaken * |  so that a slow host never fills memory
      | -- CommitCode ------------------->|
      | <---------------- CodeCommitted --|
      | -- WatchTopology ---------------->|
      | <-------------- TopologyChanged --|
      | -- ShowPresence * --------------->|  every second, by who watches nothing
      | -- LocateRanks, NameAxes -------->|
      | <----------------- RanksLocated --|  by host, and along axes
      | -- ClaimRole -------------------->|  to own, to observe, or for one question only
      | <------------------ RoleGranted --|
      | -- Assist ---------------------->|  an AI agent: it looks, and acts where a grant says so
      | -- GiveGrant -------------------->|  what a person lets AI agents do
      | <------------------- GrantGiven --|
      | -- ListGrants, RevokeGrants ----->|
      | <----------------- GrantsListed --|
      | -- NoteAuto --------------------->|  cells of my notebook run on ranks by themselves
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
      | -- FollowComms ------------------>|  comms of widgets, by who shows them
      | <------------------ CommArrived * |
      | -- CommsSeen * ------------------>|  so that a slow reader never fills memory
      | -- SendComm * ------------------->|
      | <---- CommAnswered, CommsEnded * -|
      | -- SettleComms ------------------>|  before ranks are asked for something on another line
      | <----------------- CommsSettled --|
      | -- OpenDap ----------------->|  of one rank, by who stands for its client
      | -- TellDap * --------------->|
      | <---------------- DapSpoke * |
      | -- CloseDap ---------------->|
      | <---------------- DapEnded --|
      | -- AnnounceEnd ------------------>|  ranks save first, where they want to
      | <----------------- EndAnnounced --|
      | -- StopCluster ------------------>|
      | <-------------- ClusterStopping --|

A message belongs to exactly one direction, so one for the other side is refused while decoding.
Everything about a communicator carries its generation; stale ones are dropped.
"""

from jupyter_dist.protocol.messages.from_client import *
from jupyter_dist.protocol.messages.from_engine import *
from jupyter_dist.protocol.messages.parts import *
from jupyter_dist.protocol.messages.questions import *
from jupyter_dist.protocol.messages.to_client import *
from jupyter_dist.protocol.messages.to_engine import *
