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
      | -- JoinCollective --------------->|  ranks of a cell exchange objects, or compare calls
      | -- WithdrawCollective ----------->|
      | <---------- CollectiveCompleted --|  or CollectiveFailed
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
      | -- CommitCode ------------------->|
      | <---------------- CodeCommitted --|
      | -- WatchTopology ---------------->|
      | <-------------- TopologyChanged --|
      | -- ClaimRole -------------------->|  to own, to observe, or for one question only
      | <------------------ RoleGranted --|
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

from jupyter_dist.protocol.messages.from_client import *
from jupyter_dist.protocol.messages.from_engine import *
from jupyter_dist.protocol.messages.parts import *
from jupyter_dist.protocol.messages.questions import *
from jupyter_dist.protocol.messages.to_client import *
from jupyter_dist.protocol.messages.to_engine import *
