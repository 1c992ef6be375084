"""AI agents: they only look, but for what a person has allowed them for a time.

A grant is known to who has its token: programs that reach an agent's tools on the same machine,
or an agent of another cluster, have none. It ends by time, by being revoked, and with us.
"""

import hmac
import secrets
import sys
import time
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from jupyter_dist.coordinator.cells.cell_run import CellRun
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.coordinator.state.sender import Handlers, Sender
from jupyter_dist.errors import ErrorCode
from jupyter_dist.protocol.identity import client_of
from jupyter_dist.protocol.messages import (
    ACTS,
    AnswerInput,
    AskRanks,
    Assist,
    AwaitReady,
    CommsSeen,
    Explain,
    FromClient,
    GiveGrant,
    Grant,
    GrantGiven,
    GrantsListed,
    HealRanks,
    InputShown,
    InterruptCell,
    ListCells,
    ListGrants,
    ListNames,
    LocateRanks,
    OutputSeen,
    PullObject,
    ReadCollectives,
    ReadStacks,
    ReplayOutput,
    RevokeGrants,
    RoleGranted,
    ShowPresence,
    ShowValue,
    SubmitCell,
    WatchTopology,
    WithdrawCell,
)
from jupyter_dist.text.lists import on_one_line

MOST_S = 7 * 24 * 3600.0
MOST_GRANTS = 20
MOST_MEMBERS = 500
"""An agent connects for each call. Who is connected says so every second; others are forgotten."""
_MOST_NEWS = 20
_SAVE = "checkpoint.save"
_LOOKS = AwaitReady | ShowPresence | WatchTopology | LocateRanks | Explain | ReadCollectives
_READS = ListCells | ListGrants | ReplayOutput | Assist
_OWN_CELL = OutputSeen | CommsSeen | WithdrawCell | InputShown | AnswerInput
_QUESTIONS = ListNames | ReadStacks | ShowValue
"""None of them runs code of anyone; completion and inspection do."""


class _Grant(msgspec.Struct):
    told: Grant
    token: str


class _Assistant(msgspec.Struct, frozen=True):
    pid: int
    who: str
    token: str


class Assistants:
    """Who of the clients is an AI agent, and what these may do at the moment."""

    def __init__(
        self, roster: Roster, sender: Sender, time_of_day: Callable[[], float] = time.time
    ) -> None:
        self._roster, self._sender, self._time_of_day = roster, sender, time_of_day
        self.members: dict[bytes, _Assistant] = {}
        """Those that have said so, by client, the longest silent one first."""
        self._grants: list[_Grant] = []
        self._given = 0
        self._news: list[str] = []
        """What they have done that no cell of a person has told yet."""

    def handlers(self) -> Handlers:
        """Return what takes which message."""
        return {
            Assist: self.take_part,
            GiveGrant: self.give,
            ListGrants: self.list_grants,
            RevokeGrants: self.revoke,
        }

    # --- people ---

    def give(self, line: bytes, request: GiveGrant, _now_s: float) -> None:
        """Let them do something from now on, and tell the token."""
        unknown = [act for act in request.may if act not in ACTS]
        if unknown or not request.may:
            given = f"{unknown[0]!r} is unknown" if unknown else "nothing is named"
            problem = f"{given}. Accepted: {', '.join(ACTS)}; for example run,interrupt."
        elif not 0 < request.for_s <= MOST_S:
            problem = f"{request.for_s:g} s is not accepted: a grant ends after 7 days at most."
        elif len(self._holding()) >= MOST_GRANTS:
            problem = f"{MOST_GRANTS} grants hold already. %dist_allow --revoke ends them."
        else:
            self._given += 1
            may = tuple(act for act in ACTS if act in request.may)
            told = Grant(self._given, may, self._time_of_day() + request.for_s)
            grant = _Grant(told, secrets.token_urlsafe(18))
            self._grants.append(grant)
            self._log(f"grant {told.number} for {', '.join(may)}, {request.for_s:g} s")
            self._sender.to_client(line, GrantGiven(request.request_id, told, grant.token))
            return
        self._sender.refuse(line, request.request_id, ErrorCode.USAGE_ERROR, problem)

    def list_grants(self, line: bytes, request: ListGrants, _now_s: float) -> None:
        """Tell which grants hold."""
        told = tuple(grant.told for grant in self._holding())
        self._sender.to_client(line, GrantsListed(request.request_id, told))

    def revoke(self, line: bytes, request: RevokeGrants, _now_s: float) -> None:
        """Revoke grants, and tell which."""
        holding = self._holding()
        gone = [each for each in holding if request.number in (0, each.told.number)]
        if not gone and request.number:
            numbers = ", ".join(str(grant.told.number) for grant in holding) or "none"
            problem = f"grant {request.number} does not hold. Those that hold: {numbers}."
            self._sender.refuse(line, request.request_id, ErrorCode.USAGE_ERROR, problem)
            return
        self._grants = [grant for grant in holding if grant not in gone]
        for grant in gone:
            self._log(f"grant {grant.told.number} is revoked")
        told = tuple(grant.told for grant in gone)
        self._sender.to_client(line, GrantsListed(request.request_id, told))

    # --- AI agents ---

    def take_part(self, line: bytes, request: Assist, _now_s: float) -> None:
        """Let a client look, and act by a grant; one that does not hold is refused."""
        who = on_one_line("".join(filter(str.isprintable, request.who))) or "an AI agent"
        self.members[client_of(line)] = _Assistant(request.pid, who, request.token)
        while len(self.members) > MOST_MEMBERS:
            del self.members[next(iter(self.members))]
        if request.token and self._find(request.token) is None:
            problem = self._refuse_token()
            self._sender.refuse(line, request.request_id, ErrorCode.NOT_ALLOWED, problem)
            return
        self._sender.to_client(line, RoleGranted(request.request_id, "assist"))

    def find_objection(self, line: bytes, message: FromClient) -> str:
        """Return why this client may not do that; empty when it may, and then it is noted."""
        member = self._hear(client_of(line))
        if member is None or isinstance(message, _LOOKS | _READS | _OWN_CELL):
            return ""
        if isinstance(message, AskRanks) and isinstance(message.about, _QUESTIONS):
            return ""
        act = _act_of(message)
        if not act:
            return "AI agents do not do this, whatever is granted: a person does."
        grant = self._find(member.token) if member.token else None
        if grant is None:
            return self._refuse_token() if member.token else self._ask_for(act)
        if act not in grant.told.may:
            granted = ", ".join(grant.told.may)
            return f"grant {grant.told.number} is for {granted} only, and {self._ask_for(act)}"
        self._note(member, grant, message, act)
        return ""

    def introduce(self, line: bytes, cell: CellRun) -> None:
        """Note who has sent a cell; one of a person tells what AI agents did since the last."""
        member = self.members.get(client_of(line))
        if member is not None:
            cell.by = member.who
            return
        for news in self._news:
            cell.tell(news)
        self._news = []

    def _hear(self, client: bytes) -> _Assistant | None:
        """Return who this is, and put it behind those that were heard before."""
        member = self.members.pop(client, None)
        if member is not None:
            self.members[client] = member
        return member

    def _note(self, member: _Assistant, grant: _Grant, message: FromClient, act: str) -> None:
        at = time.strftime("%H:%M:%S", time.localtime(self._time_of_day()))
        deed = _name_deed(message, act)
        grant.told = replace(grant.told, acts=grant.told.acts + 1, last=f"{deed} by {member.who}")
        self._news = [*self._news, f"{member.who} at {at}: {deed}"][-_MOST_NEWS:]
        self._log(f"{member.who} (process {member.pid}, grant {grant.told.number}): {deed}")

    def _holding(self) -> list[_Grant]:
        now_s = self._time_of_day()
        self._grants = [grant for grant in self._grants if now_s < grant.told.until_s]
        return self._grants

    def _find(self, token: str) -> _Grant | None:
        given = token.encode(errors="replace")
        holding = self._holding()
        return next((each for each in holding if _is_same(each.token, given)), None)

    def _refuse_token(self) -> str:
        return (
            f"this grant does not hold for cluster {self._roster.cluster!r}: its time is over, it "
            "was revoked, or it is for another cluster. A person gives one: %dist_allow agent."
        )

    def _ask_for(self, act: str) -> str:
        cluster, options = self._roster.cluster, f"agent --for 2h --may {act}"
        return (
            f"no person has allowed {act!r} on cluster {cluster!r}. Ask for it: in the notebook "
            f"%dist_allow {options}, or in a terminal jupyter dist allow {options} --name "
            f"{cluster}; either tells the token to pass on as `grant`."
        )

    def _log(self, text: str) -> None:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self._time_of_day()))
        sys.stderr.write(f"{at} AI agents: {text}\n")


def _is_same(token: str, given: bytes) -> bool:
    return hmac.compare_digest(token.encode(), given)


def _act_of(message: FromClient) -> str:
    """Return what has to be allowed for a request; empty: nothing makes it allowed."""
    match message:
        case SubmitCell(command=command):
            return "checkpoint" if command is not None and command.name == _SAVE else "run"
        case PullObject():
            return "run"  # what is pulled is evaluated
        case InterruptCell():
            return "interrupt"
        case HealRanks():
            return "heal"
        case _:
            return ""


def _name_deed(message: FromClient, act: str) -> str:
    match message:
        case SubmitCell(command=None):
            return f"run In[{message.label}]"
        case PullObject():
            return f"pull {on_one_line(message.name)}"
        case _:
            return act
