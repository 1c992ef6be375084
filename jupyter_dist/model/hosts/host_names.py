"""Many host names as a short text: `node[01-04,07], login`, as Slurm writes them."""

import re
from collections.abc import Sequence

from jupyter_dist.text.lists import name_some

_NUMBERED = re.compile(r"(?P<before>.*?)(?P<number>\d+)(?P<after>\D*)")
_DIGITS = re.compile(r"(\d+)")
_FEWEST_IN_RANGE = 3


def name_hosts(hosts: Sequence[str]) -> str:
    """Join names by commas; those that differ in one number share brackets from three on."""
    groups: dict[tuple[str, int, str], list[str]] = {}
    for host in hosts:
        match = _NUMBERED.fullmatch(host)
        key = (match["before"], len(match["number"]), match["after"]) if match else (host, 0, "")
        groups.setdefault(key, []).append(match["number"] if match else "")
    names: list[str] = []
    for (before, digits, after), numbers in groups.items():
        if digits and len(numbers) >= _FEWEST_IN_RANGE:
            names.append(f"{before}[{_ranges(sorted(numbers))}]{after}")
        else:
            names += [f"{before}{number}{after}" for number in numbers]
    return name_some(names)


def place_in_order(host: str) -> tuple[tuple[str, int], ...]:
    """Return what sorts hosts as people count them: node2 stands before node10."""
    return tuple(("", int(part)) if part.isdecimal() else (part, 0) for part in _DIGITS.split(host))


def _ranges(numbers: Sequence[str]) -> str:
    """Write sorted numbers of one width as `01-04,07`."""
    spans: list[list[str]] = []
    for number in numbers:
        if spans and int(number) == int(spans[-1][-1]) + 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    return ",".join(span[0] if len(span) == 1 else f"{span[0]}-{span[-1]}" for span in spans)
