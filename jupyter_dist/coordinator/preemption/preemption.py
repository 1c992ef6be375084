"""Hosts that will be taken away: all ranks are told, agree where to save, and are waited for."""

from dataclasses import dataclass, replace

from jupyter_dist.coordinator.agents.message_sender import NOBODY
from jupyter_dist.coordinator.cells.cell_run import CellParts, CellRun
from jupyter_dist.coordinator.cells.output_log import OutputLog
from jupyter_dist.coordinator.cells.scheduler import CellScheduler, Work
from jupyter_dist.coordinator.preemption.job_end import JobEnd
from jupyter_dist.coordinator.preemption.notice import Notice
from jupyter_dist.coordinator.state.clock import NEVER, TICK_S
from jupyter_dist.coordinator.state.roster import EngineRecord
from jupyter_dist.launch.batch.job_watch import JobWatch
from jupyter_dist.model.ranks.preemption_agreement import choose_save_point, time_to_save_s
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.commands import PREEMPTION, PreemptionRequest
from jupyter_dist.protocol.messages import (
    AnnounceEnd,
    EndAnnounced,
    FromNotices,
    HeedNotices,
    NoticeHandled,
    NoticeOver,
    NoticePosition,
    PreemptNotice,
    SavePointChosen,
    SubmitCell,
    WatchNotices,
)

ANSWER_PATIENCE_S = 3.0
"""A rank that has not told where it is after this time is held by native code."""
_HANDLED = "every rank has handled that"
_NOTHING_LEFT = "its cell ended before the call at which ranks save"
_LABEL = "what is run before a host is taken away"


@dataclass
class _Word:
    """What an agent has said of its host."""

    reason: str
    is_ending: bool
    """The agent ends when it is let go."""
    is_handled: bool = False


class Preemption:
    """Opens a notice for what agents and the job's scheduler say, one at a time.

    It has no table of states: what a notice waits for follows at each step from who is present and
    from two facts, its save point and its own cell.
    """

    def __init__(self, parts: CellParts, scheduler: CellScheduler, job: JobWatch | None) -> None:
        self._parts = parts
        self._roster, self._sender = parts.roster, parts.sender
        self._scheduler = scheduler
        scheduler.listeners.append(self)
        self._end = JobEnd(job)
        self._wanted: dict[str, WatchNotices] = {}
        """What engines have said of themselves, by their names."""
        self._told_hosts: dict[str, bool] = {}
        """Whether notices are wanted, as the agents were told last."""
        self._told_engines: dict[str, bool] = {}
        self._words: dict[str, _Word] = {}
        self._askers: list[tuple[bytes, str]] = []
        """Clients that wait until ranks have handled a notice, each with its request."""
        self._count = 0
        self._open: Notice | None = None
        self._outcome = ""
        self._outcome_hosts: set[str] = set()

    @property
    def note(self) -> str:
        """Which hosts will be taken away, and how that was handled; empty: none."""
        if self._open is not None:
            return f"{self._open.text}; ranks save"
        unheeded = {host: word.reason for host, word in self._words.items() if not word.is_handled}
        if unheeded:
            return Notice(0, unheeded, 0.0, 0.0, 0.0, set()).text
        return self._outcome

    # --- what is heard -----------------------------------------------------------------------

    def on_engine(self, message: FromNotices, now_s: float) -> None:
        """Take in what a rank says."""
        name, notice = self._roster[message.rank].name, self._open
        match message:
            case WatchNotices():
                self._wanted[name] = message
                self._tell_wanted()
                self._begin_where_due(now_s)
            case NoticePosition() if notice is not None and notice.number == message.number:
                notice.take_position(name, message.position)
            case NoticeHandled() if notice is not None and notice.number == message.number:
                notice.handled[name] = message
        self._advance(now_s)

    def on_event(self, host: str, event: pb.AgentEvent, now_s: float) -> None:
        """Take in what an agent says of its host."""
        notice = event.notice
        if notice.is_withdrawn:
            self._words.pop(host, None)
        elif notice.is_ending and self._open is None and not self._is_wanted():
            self._sender.to_agent(host, pb.AgentCommand(let_go=pb.LetGo()))
        else:
            self._words[host] = _Word(notice.reason, notice.is_ending)
            self._begin_where_due(now_s)
            self._advance(now_s)

    def on_request(self, client: bytes, request: AnnounceEnd, now_s: float) -> None:
        """Take in that a client will end what runs; it is answered when ranks have handled that."""
        if self._open is None and not self._is_wanted():
            self._sender.to_client(client, EndAnnounced(request.request_id, ""))
            return
        self._askers.append((client, request.request_id))
        if self._open is None:
            self._begin({"": request.reason}, 0.0, now_s)
        self._advance(now_s)

    def on_gone(self, host: str) -> None:
        """Take in that the agent of a host is gone: it is taken away, or comes again."""
        self._told_hosts.pop(host, None)
        self._words.pop(host, None)

    def on_over(self, _work: Work, now_s: float) -> None:
        """Go on with a notice once work has ended: what is marked is saved before other work."""
        self._advance(now_s)

    def tick(self, now_s: float) -> float:
        """Go on, as far as possible now; return when to look again."""
        words = self._words.keys() | ({""} if self._end.is_told else set())
        is_gone = bool(self._outcome_hosts) and self._outcome_hosts.isdisjoint(words)
        if is_gone and all(engine.is_present for engine in self._roster.engines):
            self._outcome, self._outcome_hosts = "", set()  # others are there in their place
        self._tell_wanted()
        self._begin_where_due(now_s)
        self._advance(now_s)
        return now_s + TICK_S if self._open is not None else NEVER

    # --- who wants to know -------------------------------------------------------------------

    def _wants(self, engine: EngineRecord) -> WatchNotices | None:
        return self._wanted.get(engine.name) if engine.is_present else None

    def _is_asking(self, engine: EngineRecord, cell: CellRun | None) -> bool:
        """Return whether this engine has called should_save() in the cell."""
        wanted = self._wants(engine)
        return wanted is not None and cell is not None and wanted.cell_id == cell.cell_id

    def _is_wanted(self) -> bool:
        cell_id = None if (cell := self._user_cell) is None else cell.cell_id
        for name, wanted in self._wanted.items():
            if wanted.is_always or wanted.cell_id == cell_id:
                engine = self._roster.find(name)
                if engine is not None and engine.is_present:
                    return True
        return False

    @property
    def _user_cell(self) -> CellRun | None:
        """The cell that runs, unless it is our own."""
        cell = self._scheduler.cell
        own = self._open.own_cell if self._open is not None else None
        return None if cell is own else cell

    def _tell_wanted(self) -> None:
        """Tell agents and engines whether SIGTERM is to be heeded, where that is news to them."""
        if not self._wanted:
            return
        is_wanted = self._is_wanted() or self._open is not None
        was_told = True in self._told_hosts.values() or True in self._told_engines.values()
        if not (is_wanted or was_told):
            return
        for host in self._roster.hosts:
            if self._told_hosts.get(host, False) != is_wanted:
                command = pb.AgentCommand(heed_notices=pb.HeedNotices(is_wanted=is_wanted))
                if self._sender.to_agent(host, command):
                    self._told_hosts[host] = is_wanted
        for engine in self._roster.present():
            if engine.pid and self._told_engines.get(engine.name, False) != is_wanted:
                self._told_engines[engine.name] = is_wanted
                self._sender.to_engine(engine.info.rank, HeedNotices(is_wanted))

    # --- a notice begins ---------------------------------------------------------------------

    def _begin_where_due(self, now_s: float) -> None:
        """Open a notice for what was said and nobody has heeded, or add it to the open one."""
        reasons = {h: word.reason for h, word in self._words.items() if not word.is_handled}
        if self._open is not None:
            self._open.reasons |= reasons
            return
        left_s = self._end.left_s()
        if not (reasons or left_s) or not self._is_wanted():
            return
        if left_s:
            reasons[""] = self._end.mark_told()
        self._begin(reasons, left_s, now_s)

    def _begin(self, reasons: dict[str, str], left_s: float, now_s: float) -> None:
        self._count += 1
        budget_s = time_to_save_s(left_s)
        present = self._roster.present_ranks()
        notice = self._open = Notice(
            self._count,
            reasons,
            left_s,
            now_s + budget_s,
            now_s + min(ANSWER_PATIENCE_S, budget_s / 2),
            {self._roster[rank].name for rank in present},
        )
        self._outcome = ""
        cell = self._user_cell
        if cell is not None:
            cell.tell(f"{notice.text}; every rank saves at one call of checkpoint.should_save()")
        for rank in present:
            is_first = rank == present[0]
            self._sender.to_engine(
                rank, PreemptNotice(notice.number, notice.text, budget_s, is_first)
            )

    # --- and goes on -------------------------------------------------------------------------

    def _advance(self, now_s: float) -> None:
        notice = self._open
        if notice is None:
            return
        notice.awaited &= {engine.name for engine in self._roster.present()}
        if notice.point is None and (not notice.awaited or now_s >= notice.answers_until_s):
            self._choose_point(notice)
        if notice.point is None:
            return
        late = self._find_late(notice)
        if notice.own_cell is not None and self._is_stale(notice.own_cell):
            self._scheduler.withdraw(NOBODY, notice.own_cell.request_id)
            notice.own_cell = None
        if notice.own_cell is None and late and self._can_run_own_cell(notice):
            self._run_own_cell(notice, now_s)
        if not late or now_s >= notice.deadline_s:
            self._finish(notice, late)

    def _is_stale(self, cell: CellRun) -> bool:
        """Return whether it was refused, or others than its ranks are there before it has begun."""
        if cell.is_over or cell is self._scheduler.current:
            return False
        return cell not in self._scheduler.all_work or cell.ranks != tuple(
            self._roster.present_ranks()
        )

    def _can_run_own_cell(self, notice: Notice) -> bool:
        """Return whether the cell is over, and all ranks are there that will be."""
        is_other_work = not isinstance(self._scheduler.current, CellRun | None)
        return (
            self._is_cell_over(notice)
            and not is_other_work
            and not self._scheduler.expects_recovery()
        )

    def _choose_point(self, notice: Notice) -> None:
        cell = self._user_cell
        running = self._running(cell)
        saves = len(running) == self._roster.world_size and self._saves_marked()
        cell_id = cell.cell_id if cell is not None else ""
        notice.point = choose_save_point(
            cell_id, list(notice.positions.values()), saves_marked=saves
        )
        self._sender.to_engines(
            self._roster.present_ranks(), SavePointChosen(notice.number, notice.point)
        )

    def _saves_marked(self) -> bool:
        found = (self._wants(engine) for engine in self._roster.engines)
        return any(wanted is not None and wanted.has_marks for wanted in found)

    @staticmethod
    def _running(cell: CellRun | None) -> list[int]:
        """Return the ranks that have not finished the cell."""
        return [] if cell is None else [rank for rank in cell.ranks if rank not in cell.statuses]

    def _is_cell_over(self, notice: Notice) -> bool:
        assert notice.point is not None
        cell = self._user_cell
        return cell is None or cell.cell_id != notice.point.cell_id

    def _find_late(self, notice: Notice) -> list[str]:
        """Return the engines that have something to do which they have not done."""
        cell = None if self._is_cell_over(notice) else self._user_cell
        is_asked = any(self._is_asking(engine, cell) for engine in self._roster.engines)
        running = set(self._running(cell)) if is_asked else set()
        has_to_save = self._saves_marked() and not self._has_saved(notice)
        late = []
        for engine in self._roster.present():
            wanted = self._wants(engine)
            wants = engine.info.rank in running or (wanted is not None and wanted.is_always)
            if (wants and engine.name not in notice.handled) or has_to_save:
                late.append(engine.name)
        return late

    def _has_saved(self, notice: Notice) -> bool:
        """Return whether what is marked is saved, or could not be when all ranks were there."""
        handled = notice.handled.values()
        was_tried = all(notice.has_tried(engine.name) for engine in self._roster.present())
        was_run = notice.own_cell is not None and notice.own_cell.is_over
        return was_tried or was_run or any(each.has_saved for each in handled)

    def _run_own_cell(self, notice: Notice, now_s: float) -> None:
        """Have ranks that are idle do what is to be done, before any other cell begins."""
        saves = self._saves_marked()
        left_s = max(1.0, notice.deadline_s - now_s)
        asked = PreemptionRequest(notice.number, notice.text, left_s, saves_marked=saves)
        command = PREEMPTION.order(asked, notice.text)
        request = SubmitCell(
            f"preempt-{notice.number}",
            command.title,
            tuple(self._roster.present_ranks()),
            timeout_s=left_s,
            command=command,
        )
        unseen = replace(self._parts, log=OutputLog())
        notice.own_cell = CellRun(NOBODY, request, request.request_id, unseen)
        notice.own_cell.label = _LABEL
        self._scheduler.put_first(notice.own_cell, now_s)

    def _finish(self, notice: Notice, late: list[str]) -> None:
        """Tell how it went, and let the agents go that wait for it."""
        cell = self._user_cell
        problems = notice.describe_problems(self._roster)
        if notice.own_cell is not None:
            self._scheduler.withdraw(NOBODY, notice.own_cell.request_id)
        if late:
            how = notice.describe_late(self._roster, late, self._running(cell))
        else:
            how = _HANDLED if notice.handled else _NOTHING_LEFT
        self._outcome = "; ".join((notice.text, how, *problems))
        self._outcome_hosts = set(notice.reasons)
        self._open = None
        if cell is not None:
            cell.tell(self._outcome)
        self._sender.to_engines(self._roster.present_ranks(), NoticeOver(notice.number))
        for client, request_id in self._askers:
            self._sender.to_client(client, EndAnnounced(request_id, self._outcome))
        self._askers.clear()
        for host, word in self._words.items():
            word.is_handled = True
            if word.is_ending:
                self._sender.to_agent(host, pb.AgentCommand(let_go=pb.LetGo()))
