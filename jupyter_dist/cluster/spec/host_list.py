"""Hosts as people write them: on a command line, and in the host files of MPI, PBS and Slurm.

A command line has `a:8,user@b:8,[fd00::1]:2,node[01-04]:8,c,join:2`. A host file has one host on
a line, in Open MPI's words (`a slots=8`), MPICH's (`a:8`), Slurm's (`node[01-04]`) or PBS's
(`a` once for each slot).
"""

import itertools
import math
import re
from collections import Counter

from msgspec.structs import replace

from jupyter_dist.errors import HostSpecError
from jupyter_dist.model.spec.cluster_spec import (
    JOIN,
    MOST_HOSTS,
    MOST_SLOTS,
    HostSpec,
    check_named_once,
    is_host_name,
    is_ipv6,
    is_user_name,
)

_COMMA = re.compile(r",(?![^\[\]]*\])")
_IN_BRACKETS = re.compile(r"\[(?P<address>[^\]]*)\](:(?P<slots>.*))?")
_GROUP = re.compile(r"\[([^\[\]]*)\]")
_SPAN = re.compile(r"(?P<first>[0-9]{1,9})(-(?P<last>[0-9]{1,9}))?")
_FILE_WORDS = ("slots", "max_slots")
_FILE_LINES = (
    "one host on a line as `a`, `a slots=8`, `a:8`, `user@a` or `node[01-04]`, and comments after "
    "#; a name on several lines has as many slots; for example `node01 slots=8`"
)


def parse_hosts(text: str) -> tuple[HostSpec, ...]:
    """Read `a:8,b:8`; raises HostSpecError naming what was given and what is accepted.

    The hosts of `join:2` are called join-1 and join-2 until their agents come; those bring their
    own names and slots.
    """
    try:
        hosts = tuple(host for entry in _COMMA.split(text) for host in _read_entry(entry.strip()))
        _check_count(len(hosts))
    except HostSpecError as error:
        raise HostSpecError(text, error.problem) from None
    check_named_once(hosts, text)
    return hosts


HERE, IN_JOB = "here", "job"
"""In place of the machine of a coordinator: this one, and the first node of a job."""


def parse_coordinator(text: str) -> HostSpec | None:
    """Read where the coordinator is to be, `here` (None), `job` or `alice@login`.

    That of a job is a host that joins. Raise HostSpecError.
    """
    if text == HERE:
        return None
    if text == IN_JOB:
        return HostSpec(name=IN_JOB, launcher=JOIN)
    try:
        named, problem = parse_hosts(text), ""
        if len(named) > 1:
            problem = "it is one machine"
        elif named[0].slots or named[0].launcher == JOIN:
            problem = "it has a name, and no number of ranks"
    except HostSpecError as error:
        problem = error.problem
    if problem:
        accepted = "here, job (the first node of a batch job), or HOST or user@HOST as ssh knows it"
        raise HostSpecError(text, problem, where="coordinator", accepted=accepted)
    return replace(named[0], launcher="ssh")


def write_coordinator(host: HostSpec | None) -> str:
    """Write it so that `parse_coordinator` reads the same."""
    if host is None:
        return HERE
    return f"{host.user}@{host.name}" if host.user else host.name


def expand_hosts(text: str) -> tuple[str, ...]:
    """Read names as `a,node[01-04]`, without slots; raise HostSpecError."""
    entries = [entry.strip() for entry in split_hosts(text)]
    return tuple(name for entry in entries for name in _expand(entry, entry))


def split_hosts(text: str) -> list[str]:
    """Split at the commas that stand in no brackets."""
    return _COMMA.split(text)


def hosts_of_job(system: str, nodes: int, like: HostSpec) -> tuple[HostSpec, ...]:
    """Return hosts that join, as slurm-1 and slurm-2 of a batch job, until their agents come."""
    return tuple(
        replace(like, name=f"{system}-{number}", launcher=JOIN) for number in range(1, nodes + 1)
    )


def parse_hostfile(text: str, path: str) -> tuple[HostSpec, ...]:
    """Read a host file; raises HostSpecError naming the file and the line."""
    found: list[tuple[int, HostSpec]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.partition("#")[0].strip()
        try:
            found += [(number, host) for host in _read_line(content)]
        except HostSpecError as error:
            raise _line_error(path, number, content, error.problem) from None
    if not found:
        raise HostSpecError(path, "it names no host", where="host file", accepted=_FILE_LINES)
    return _merge(found, path)


def _read_entry(entry: str) -> tuple[HostSpec, ...]:
    user, at, place = entry.rpartition("@")
    if at and not is_user_name(user):
        raise HostSpecError(entry, f"{user!r} in {entry!r} is not a user's name")
    pattern, slots_text = _split_place(entry, place)
    names = _expand(entry, pattern)
    slots = 0 if slots_text is None else _read_slots(slots_text)
    if pattern == JOIN:
        return _joining(entry, user, slots)
    return tuple(HostSpec(name, slots, user=user) for name in names)


def _split_place(entry: str, place: str) -> tuple[str, str | None]:
    """Split HOST:SLOTS at the colon that is no part of an IPv6 address."""
    if is_ipv6(place):
        raise HostSpecError(
            entry, f"{place} is an IPv6 address: write it in brackets, as [{place}] or [{place}]:8"
        )
    match = _IN_BRACKETS.fullmatch(place)
    if match is None:
        pattern, colon, slots_text = place.partition(":")
        return pattern, slots_text if colon else None
    if not is_ipv6(match["address"]):
        raise HostSpecError(entry, f"{match['address']!r} in {entry!r} is not an IPv6 address")
    return f"[{match['address']}]", match["slots"]


def _read_slots(text: str) -> int:
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(MOST_SLOTS))
    if not is_number or not 1 <= int(text) <= MOST_SLOTS:
        raise HostSpecError(text, f"{text!r} is not a number of slots, 1-{MOST_SLOTS}")
    return int(text)


def _joining(entry: str, user: str, count: int) -> tuple[HostSpec, ...]:
    if user:
        raise HostSpecError(
            entry, f"{entry!r} names a user, but hosts that join are not logged in to"
        )
    if not count:
        raise HostSpecError(entry, f"{entry!r} does not say how many join: write join:N, as join:4")
    return hosts_of_job(JOIN, count, HostSpec(""))


def _expand(entry: str, pattern: str) -> list[str]:
    """Return the names that `rack[1-2]-node[01-04]` stands for; most stand for themselves."""
    if is_host_name(pattern) and not pattern.isdecimal():
        return [pattern]
    # Texts and the insides of brackets take turns.
    choices = [
        _numbers(entry, piece) if place % 2 else [piece]
        for place, piece in enumerate(_GROUP.split(pattern))
    ]
    _check_count(math.prod(map(len, choices)))
    names = ["".join(parts) for parts in itertools.product(*choices)]
    if not all(map(is_host_name, names)):
        raise HostSpecError(entry, f"{entry!r} is not HOST or HOST:SLOTS")
    for name in filter(str.isdecimal, names):  # ssh would take it for an address, as 0.0.0.8
        raise HostSpecError(
            entry, f"{name!r} is a number, not a host: localhost:{name} are ranks on this machine"
        )
    return names


def _numbers(entry: str, spans: str) -> list[str]:
    """Read `01-03,07`; as many digits as its first number has, where that begins with 0."""
    found: list[str] = []
    for span in spans.split(","):
        match = _SPAN.fullmatch(span.strip())
        if match is None:
            raise HostSpecError(
                entry, f"{span!r} in {entry!r} is not a number or a range, as 01-04"
            )
        first, last = match["first"], match["last"] or match["first"]
        if int(last) < int(first):
            raise HostSpecError(entry, f"the range {span!r} in {entry!r} ends before it begins")
        is_padded = any(len(end) > 1 and end.startswith("0") for end in (first, last))
        if is_padded and len(first) != len(last):
            raise HostSpecError(
                entry, f"the ends of the range {span!r} in {entry!r} have different widths"
            )
        _check_count(len(found) + int(last) - int(first) + 1)
        width = len(first) if is_padded else 0
        found += [f"{number:0{width}d}" for number in range(int(first), int(last) + 1)]
    return found


def _check_count(count: int) -> None:
    if count > MOST_HOSTS:
        raise HostSpecError("", f"it stands for more than {MOST_HOSTS} hosts")


def _read_line(content: str) -> list[HostSpec]:
    """Read one line without its comment; an empty one has no host."""
    words = content.split()
    names = [word for word in words if "=" not in word]
    if not words:
        return []
    if len(names) != 1 or names[0] != words[0]:
        raise HostSpecError(content, "a line has one host, or several with commas between them")
    slots = _read_words(words[1:])
    hosts = [host for entry in _COMMA.split(names[0]) for host in _read_entry(entry)]
    _check_count(len(hosts))
    if any(host.launcher == "join" for host in hosts):
        raise HostSpecError(content, "hosts that join have no line here: use --hosts join:N")
    if slots and any(host.slots for host in hosts):
        raise HostSpecError(content, "it says twice how many slots")
    return [replace(host, slots=slots or host.slots) for host in hosts]


def _read_words(words: list[str]) -> int:
    """Read `slots=8 max_slots=8`; 0 when there is neither."""
    counts = dict.fromkeys(_FILE_WORDS, 0)
    for word in words:
        key, _, value = word.partition("=")
        key = key.replace("-", "_")
        if key not in counts:
            raise HostSpecError(word, f"{word!r} is unknown; known are slots=N and max_slots=N")
        counts[key] = _read_slots(value)
    slots, most = counts["slots"], counts["max_slots"]
    if most and slots > most:
        raise HostSpecError("", f"{slots} slots are more than max_slots={most}")
    return slots or most


def _merge(found: list[tuple[int, HostSpec]], path: str) -> tuple[HostSpec, ...]:
    """Add up the slots of each name, in the order in which they come first.

    In a file that repeats plain names each plain line stands for one slot, as PBS writes them.
    """
    lines = Counter(host.name for _, host in found)
    is_per_slot = any(not host.slots and lines[host.name] > 1 for _, host in found)
    merged: dict[str, HostSpec] = {}
    for number, host in found:
        before = merged.get(host.name, replace(host, slots=0))
        if before.user != host.user:
            problem = f"it has another user on an earlier line ({before.user or 'none'})"
            raise _line_error(path, number, host.name, problem)
        slots = host.slots or (1 if is_per_slot else 0)
        merged[host.name] = replace(before, slots=before.slots + slots)
    hosts = tuple(merged.values())
    try:
        _check_count(len(hosts))
        check_named_once(hosts, path)
    except HostSpecError as error:
        raise HostSpecError(path, error.problem, where="host file", accepted=_FILE_LINES) from None
    return hosts


def _line_error(path: str, number: int, content: str, problem: str) -> HostSpecError:
    where = f"host file {path}, line {number}:"
    return HostSpecError(content, problem, where=where, accepted=_FILE_LINES)
