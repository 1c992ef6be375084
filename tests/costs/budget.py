"""What a cluster may cost: the lines of `budget.toml`, against what was counted."""

import tomllib
from pathlib import Path

PATH = Path(__file__).with_name("budget.toml")
EVENTS = ("start", "cell", "line", "push", "wait", "idle")
MAY_LACK = ("syscalls", "threads")
"""Of quantities: there is no strace, or there are more cores, for which libraries have threads."""
MOST_COUNTS = 3
"""Of each size: a machine that is busy with other things disturbs one, or two."""
LOOSE_SHARE = 0.25
"""What costs so much less than its line says is not guarded by it."""


def read(text):
    """Return the budget by (event, ranks, process, quantity), the line of each, and how exact."""
    budget = tomllib.loads(text)
    exactness = budget.pop("exactness")
    numbers = {
        (event, int(ranks), process, quantity): number
        for event, sizes in budget.items()
        for ranks, processes in sizes.items()
        for process, quantities in processes.items()
        for quantity, number in quantities.items()
    }
    lines, event = {}, ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("["):
            event = line.strip("[]")
        elif "." in line.partition(" ")[0]:
            lines[event, *line.partition(" ")[0].split(".")] = number
    return numbers, {key: lines[key[0], str(key[1]), key[2]] for key in numbers}, exactness


def problems(text, counted):
    """Return what disagrees, in words by (event, ranks, process, quantity), as `counted` is.

    What may lack, and was counted nowhere, is left out.
    """
    numbers, lines, exactness = read(text)
    known = {quantity for *_, quantity in counted}
    found = {}
    for key, number in numbers.items():
        event, ranks, process, quantity = key
        name = f"{PATH.name}:{lines[key]} {event}.{ranks}.{process}.{quantity}"
        if quantity in MAY_LACK and quantity not in known:
            continue
        if key not in counted:
            found[key] = f"{name}: nothing counted; remove it"
            continue
        share, more = next(
            exactness[each]
            for each in (f"{event}.{quantity}", f"{process}.{quantity}", quantity)
            if each in exactness
        )
        if counted[key] > max(number, 0) * (1 + share) + more:
            found[key] = f"{name}: {counted[key]} counted, {number} budgeted"
        elif share < LOOSE_SHARE and number - counted[key] > max(1, number * LOOSE_SHARE + more):
            found[key] = f"{name}: {counted[key]} counted, {number} budgeted; lower it"
    return found | {
        key: f"{PATH.name}: no line for {'.'.join(map(str, key))}: {counted[key]} counted"
        for key in counted.keys() - numbers.keys()
    }


def least(counts):
    """Return the least of several counts, the first of everything: other work only adds to it."""
    return {key: min(counted[key] for counted in counts if key in counted) for key in counts[0]}


def renewed(text, counted):
    """Return the text with what was counted as its numbers, and its head as it was."""
    head = text[: text.index(f"[{EVENTS[0]}]")]
    sections = []
    for event in EVENTS:
        rows = dict.fromkeys(key[1:3] for key in counted if key[0] == event)
        lines = [f"[{event}]"]
        for ranks, process in rows:
            row = {
                key[3]: number
                for key, number in counted.items()
                if key[:3] == (event, ranks, process)
            }
            numbers = ", ".join(f"{quantity} = {number}" for quantity, number in row.items())
            lines.append(f"{ranks}.{process} = {{ {numbers} }}")
        sections.append("\n".join(lines) + "\n")
    return head + "\n".join(sections)
