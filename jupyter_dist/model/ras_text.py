"""Reads the text of NCCL's RAS, which is all that NCCL 2.24 to 2.28 has. Pure.

It is meant for people and changes from release to release; what is not understood is left out.
"""

import re
from dataclasses import dataclass, field

from jupyter_dist.model.ras import (
    ERRORS,
    IN_PROGRESS,
    RasCommunicator,
    RasMissing,
    RasRank,
    RasReport,
    RasShare,
)

_MOST_RANKS = 100_000
"""Of all communicators together; the text names groups of communicators by their sizes only."""
_BEGIN = re.compile(r"^Communicators\.\.\.", re.MULTILINE)
_VERSION = re.compile(r"NCCL version (\S+)")
_ROW = re.compile(r"\s*(\d+)\s+(\d+)\s+\d+\s+\S+\s+(\d+)\s+\d+\s+([A-Z]+)\s+\S+\s*")
"""Group, communicators in it, ranks of each, status."""
_SECTION = re.compile(r"#(\d+-\d+) \(([0-9a-f]+)\) ([A-Z]+)")
_TOPIC = re.compile(
    r"Communicator ranks have different (?P<counted>\w+) operation counts"
    r"|Communicator ranks have different (?P<status>status)"
    r"|(?P<init>Initialization) errors? on"
    r"|(?P<later>Asynchronous) errors? on"
    r"|(?P<missing>Missing) communicator data from \d+ rank"
)
_VALUE = (
    r"ha(?:ve|s) launched up to operation (?P<times>\d+)"
    r"|ha(?:ve|s) (?P<none>not) launched any operations"
    r"|ha(?:ve|s) status (?P<status>[A-Z]+)"
    r"|reported (?P<error>[A-Za-z ]+?)"
)
_GROUP = re.compile(rf"(?P<count>\d+) ranks (?:{_VALUE})")
_PROCESS = r"(?:.* managed by process (?P<pid>\d+) on node (?P<host>\S+))?"
_ONE = re.compile(rf"Rank (?P<rank>\d+) (?:{_VALUE})(?: -- {_PROCESS}.*)?")
_MEMBER = re.compile(rf"Rank (?P<rank>\d+) -- {_PROCESS}.*")
_LISTED = re.compile(r"The (?:missing|unknown) ranks?: ([\d,]+)")
_PROCESS_LINE = re.compile(r"Process (?P<pid>\d+) on node (?P<host>\S+) managing GPU.*")
_BY_NAME = {name.lower(): number for number, name in ERRORS.items()}
_UNKNOWN_ERROR = -1
_AWAY = ("NOCOMM", "UNKNOWN")
"""What a rank is that says nothing of a communicator, by release."""


@dataclass
class _Group:
    """Ranks of which the same is told."""

    value: int | str
    count: int
    ranks: list[int] = field(default_factory=list)


@dataclass
class _Told:
    """What the text has told of one communicator so far."""

    key: str
    size: int
    is_forming: bool = False
    processes: dict[int, tuple[str, int]] = field(default_factory=dict)
    topics: dict[str, list[_Group]] = field(default_factory=dict)
    """By topic; a collective's name stands behind `counted `."""


def read_text(said: str) -> RasReport | None:
    """Read a whole answer; None when it is not one of RAS."""
    return _TextReader().read(said) if _BEGIN.search(said) else None


class _TextReader:
    """Reads the text line by line."""

    def __init__(self) -> None:
        self._communicators: dict[str, _Told] = {}
        self._current: _Told | None = None
        self._groups: list[_Group] = []
        self._is_dead = False
        self._dead: set[tuple[str, int]] = set()
        self._room = _MOST_RANKS

    def read(self, said: str) -> RasReport:
        """Read all of it."""
        version = _VERSION.search(said)
        for line in said.splitlines():
            self._take(line)
        communicators = [self._finish(told) for told in self._communicators.values()]
        return RasReport(version[1] if version else "", tuple(communicators))

    def _take(self, line: str) -> None:
        if row := _ROW.fullmatch(line):
            self._take_row(row)
            return
        text = line.strip()
        if section := _SECTION.fullmatch(text):
            self._current = self._communicators.get(section[1])
            self._groups = []
            if self._current is not None:
                self._current.key = section[2]
        elif text in ("DEAD", "INCOMPLETE", "Errors", "Warnings"):
            self._current, self._is_dead = None, text == "DEAD"
        elif self._current is None:
            process = _PROCESS_LINE.fullmatch(text)
            if process and self._is_dead:
                self._dead.add((process["host"], int(process["pid"])))
        elif topic := _TOPIC.match(text):
            name = topic.lastgroup or ""
            key = f"counted {topic['counted']}" if name == "counted" else name
            self._groups = self._current.topics.setdefault(key, [])
            if name == "missing":
                self._groups.append(_Group("", 0))
        else:
            self._take_ranks(self._current, text)

    def _take_row(self, row: re.Match[str]) -> None:
        """Take in how many communicators of a size there are, before more is told of any."""
        group, count, size, status = row.groups()
        for number in range(int(count)):
            self._room -= int(size)
            if self._room < 0:
                return
            told = _Told(f"#{group}-{number}", int(size), status == "INIT")
            self._communicators[f"{group}-{number}"] = told

    def _take_ranks(self, told: _Told, text: str) -> None:
        """Take in of which ranks, or of how many, the present topic is."""
        if group := _GROUP.fullmatch(text):
            self._groups.append(_Group(_value_of(group), int(group["count"])))
        elif one := _ONE.fullmatch(text):
            self._groups.append(_Group(_value_of(one), 1, [int(one["rank"])]))
            self._note_process(told, one)
        elif self._groups and (member := _MEMBER.fullmatch(text)):
            self._groups[-1].ranks.append(int(member["rank"]))
            self._note_process(told, member)
        elif self._groups and (listed := _LISTED.fullmatch(text)):
            self._groups[-1].ranks += [int(each) for each in listed[1].split(",") if each]

    @staticmethod
    def _note_process(told: _Told, match: re.Match[str]) -> None:
        if match["pid"]:
            told.processes[int(match["rank"])] = (match["host"], int(match["pid"]))

    def _finish(self, told: _Told) -> RasCommunicator:
        missing = {rank for group in told.topics.get("missing", ()) for rank in group.ranks}
        heard = [number for number in range(told.size) if number not in missing]
        away = {
            rank
            for group in _complete(told.topics.get("status", []), heard)
            if group.value in _AWAY
            for rank in group.ranks
        }
        members = [number for number in heard if number not in away]
        topics = {name: _complete(groups, members) for name, groups in told.topics.items()}
        return RasCommunicator(
            key=told.key,
            size=told.size,
            ranks=tuple(_member(number, told, topics) for number in members),
            missing=tuple(
                RasMissing(
                    rank=rank,
                    host=told.processes.get(rank, ("", 0))[0],
                    pid=told.processes.get(rank, ("", 0))[1],
                    is_silent=rank in missing,
                    is_dead=told.processes.get(rank) in self._dead,
                )
                for rank in sorted(missing | away)
            ),
            unnamed=tuple(
                RasShare(_operation(name), int(group.value), group.count)
                for name, groups in topics.items()
                if name.startswith("counted ")
                for group in groups
                if not group.ranks
            ),
        )


def _complete(groups: list[_Group], members: list[int]) -> list[_Group]:
    """Find who is in the one group whose ranks the text leaves out because they are the most."""
    named = {rank for group in groups for rank in group.ranks}
    rest = [rank for rank in members if rank not in named]
    unnamed = [group for group in groups if not group.ranks]
    if len(unnamed) == 1 and unnamed[0].count == len(rest):
        unnamed[0].ranks += rest
    return groups


def _member(number: int, told: _Told, topics: dict[str, list[_Group]]) -> RasRank:
    own = {
        name: group.value
        for name, groups in topics.items()
        for group in groups
        if number in group.ranks
    }
    host, pid = told.processes.get(number, ("", 0))
    status = own.get("status", "INIT" if told.is_forming and "status" not in topics else "")
    forming = IN_PROGRESS if status == "INIT" else 0
    return RasRank(
        rank=number,
        host=host,
        pid=pid,
        init_state=_error(own.get("init")) or forming,
        async_error=_error(own.get("later")),
        is_leaving=status == "FINALIZE",
        is_aborted=status == "ABORT",
        counts={_operation(n): int(v) for n, v in own.items() if n.startswith("counted ")},
    )


def _value_of(match: re.Match[str]) -> int | str:
    """Give a count, a status, or the words of an error."""
    if match["times"]:
        return int(match["times"])
    return 0 if match["none"] else match["status"] or match["error"]


def _error(words: int | str | None) -> int:
    return _BY_NAME.get(str(words).lower(), _UNKNOWN_ERROR) if words else 0


def _operation(topic: str) -> str:
    """Give the collective's name; until NCCL 2.25 all are counted together."""
    name = topic.removeprefix("counted ")
    return "" if name == "collective" else name
