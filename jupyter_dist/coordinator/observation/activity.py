"""What a rank does while others wait for it, in words: from its process and its stack. Pure."""

import os
import re
from typing import Literal, NamedTuple

from jupyter_dist.coordinator.observation.rank_snapshot import RankSnapshot
from jupyter_dist.model.ranks.records import tell_group
from jupyter_dist.model.ranks.stacks import Frame
from jupyter_dist.protocol.messages import WIDGET_EVENT
from jupyter_dist.text.lists import cut
from jupyter_dist.text.plurals import agree, escape

Kind = Literal["hang", "stuck", "unsure", "straggler"]

SWAPPING_PER_S = 100.0
"""With so many pages a second from disk a rank does little else than wait for them."""
_LONG_S = 10.0
_MOST_CODE = 40
_WAITS_INSIDE = re.compile(
    r"(^|/)(threading|queue|selectors|socket|ssl|subprocess|popen_\w+|connection|_base|tasks|"
    r"synchronize|queues|base_events|pdb|cmd|bdb)\.py:"
)
"""Modules of Python's whose functions stand innermost where a thread waits."""


class Activity(NamedTuple):
    """What ranks do: a clause with words in braces that agree with their number."""

    kind: Kind
    clause: str = ""
    """As `{it} wait{s} for {its} disk{n}`; empty: it is not known."""
    is_stopped: bool = False

    def say(self, count: int) -> str:
        """Write the clause for so many ranks."""
        return agree(self.clause, count)


class Place(NamedTuple):
    """A way to wait that can be told from a stack."""

    kind: Kind
    words: str
    site: str = ""
    """What a frame's site and function look like; the innermost one waits in Python's own code."""
    code: str = ""
    """Or what the innermost line says, where the rank does not compute."""
    is_suspicious: bool = False
    """After a while it is worth a word even if nobody waits for the rank."""


_PLACES = (
    Place("hang", "{it} wait{s} in the debugger", r"(pdb|bdb|debugpy\S*)\.py:\d+ "),
    Place(
        "unsure",
        "{it} wait{s} for a worker of a DataLoader",
        r"torch/utils/data/dataloader\.py:\d+ |DataLoader",
    ),
    Place(
        "straggler",
        "{it} wait{s} for another program",
        r"(subprocess|popen_\w+)\.py:\d+ ",
        r"\b(subprocess\.\w+|os\.system|os\.waitpid|check_output|check_call|Popen)\(|\.communicate\(",
    ),
    Place("straggler", "{it} sleep{s}", "", r"\bsleep\("),
    Place("unsure", "{it} wait{s} for a thread to end", r"threading\.py:\d+ join", r"\.join\("),
    Place(
        "unsure",
        "{it} wait{s} for the result of another thread or process",
        r"concurrent/futures/_base\.py:\d+ |multiprocessing/pool\.py:\d+ ",
        r"\.result\(",
    ),
    Place(
        "unsure",
        "{it} wait{s} for something to come into a queue",
        r"(queue|queues)\.py:\d+ (get|put)",
        r"\.(get|put)\(\s*(timeout=|block=|\)|True)",
    ),
    Place(
        "unsure",
        "{it} wait{s} for the network",
        r"(socket|ssl|http/client|urllib/request)\.py:\d+ ",
        r"\.(recv|recv_into|accept|connect|getresponse|readline)\(|urlopen\(|requests\.\w+\(",
    ),
    Place(
        "unsure",
        "{it} wait{s} for a lock",
        r"(threading|multiprocessing/synchronize)\.py:\d+ (wait|acquire|__enter__)",
        r"\.acquire\(|\.wait\(|\bwith \S*(lock|mutex|semaphore|condition)\S*",
        is_suspicious=True,
    ),
    Place("unsure", "{it} wait{s} for something to happen", r"selectors\.py:\d+ select"),
)

_FRAMEWORKS = (
    (r"torch/distributed/\S*\.py:\d+ (init_process_group|new_group|rendezvous\w*)", "init"),
    (r"jax/_src/distributed\.py:\d+ initialize", "init"),
    (r"cupyx/distributed/\S*\.py:\d+ (init_process_group|__init__)", "init"),
    (r"nccl/core/\S*\.py:\d+ (init\w*|split|shrink)", "init"),
    (r"torch/distributed/(?!elastic|run)\S*\.py:\d+ (?!wrapper)\w+", "torch.distributed"),
    (r"cupyx/distributed/\S*\.py:\d+ \w+", "cupyx.distributed"),
    (r"jax/\S*\.py:\d+ (block_until_ready|sync_global_devices|process_allgather)", "jax"),
    (r"jax/_src/array\.py:\d+ \w+", "jax"),
    (r"jax/_src/(pjit|interpreters/pxla)\.py:\d+ \w+", "jit"),
)
"""Where ranks sit in a collective that our recorder knows nothing of."""

_IN_PLACE = (
    (r"\bdistributed\.(initialize)\(", "jax", True),
    (r"\b(init_process_group)\(", "", True),
    (r"\bdist(?:ributed)?\.(send|recv|monitored_barrier)\(", "torch.distributed", False),
)
"""What users call where we stand in place of the framework; stacks end where our code begins."""


class Sitting(NamedTuple):
    """A call of a framework in which a rank waits, perhaps for others."""

    name: str
    """As `block_until_ready of jax`."""
    is_init: bool
    where: str
    is_jit: bool = False
    """A compiled function: what exchanges something has a record, so one without it computes."""

    @property
    def needs_others(self) -> bool:
        """It is one of a package by which ranks do nothing but exchange."""
        return self.name.endswith((" of torch.distributed", " of cupyx.distributed"))


# --- what it does ---


def find_doing(rank: RankSnapshot) -> Activity:
    """Return what a running rank does; unsure without a clause: nothing is known."""
    trouble = find_trouble(rank)
    if trouble is not None:
        return trouble
    if rank.asks:
        at = f" at {escape(describe_site(rank.stack))}" if rank.stack else ""
        return Activity("unsure", f"{{it}} {describe_asking(rank)}{at}")
    if rank.task:
        return Activity("straggler", f"{{it}} {describe_task(rank)}")
    if rank.inside is not None:
        call = rank.inside
        what = f"{call.operation} #{call.sequence}{tell_group(call.group)}"
        return Activity("unsure", f"{{it}} {{be}} in {escape(what)}")
    if rank.is_unresponsive:
        return _native_code(rank)
    if rank.stack:
        return _read_stack(rank)
    if rank.is_idle:
        return Activity("unsure")
    return Activity("straggler", f"{{it}} still compute{{s}} ({rank.cpu_percent:.0f}% CPU)")


def describe_task(rank: RankSnapshot) -> str:
    """Return the predicate of a clause about a rank that runs a task before the cell."""
    is_of_widget = rank.task == WIDGET_EVENT
    task = WIDGET_EVENT if is_of_widget else f"an ipyparallel task ({escape(rank.task)})"
    return f"run{{s}} {task} for {rank.task_s:.0f} s and {{has}} not begun this cell"


def describe_asking(rank: RankSnapshot) -> str:
    """Return the predicate of a clause about a rank that waits for a person."""
    return rank.asks.replace("waits", "wait{s}")


def _read_stack(rank: RankSnapshot) -> Activity:
    where = escape(describe_site(rank.stack))
    place, sitting = find_place(rank), find_sitting(rank)
    if place is not None:
        return Activity(place.kind, f"{place.words} at {where}")
    if sitting is not None:
        computes = sitting.is_jit and not rank.is_idle
        verb = "still compute{s}" if computes else "{be}"
        text = f"{{it}} {verb} in {sitting.name} at {escape(sitting.where)}"
        return Activity("straggler" if computes else "unsure", text)
    if rank.is_idle:
        text = "{it} wait{s}, without computing," if rank.process_state else "{it} {be}"
        return Activity("unsure", f"{text} at {where}")
    since = f", for {rank.stack_s:.0f} s already," if rank.stack_s >= _LONG_S else ""
    return Activity("straggler", f"{{it}} still compute{{s}}{since} at {where}")


def find_trouble(rank: RankSnapshot) -> Activity | None:
    """Return what keeps a rank from going on that its code has nothing to do with."""
    if rank.is_stopped:
        return Activity("stuck", "{its} process{nes} {be} stopped", is_stopped=True)
    at = f" at {escape(describe_site(rank.stack))}" if rank.stack else ""
    if rank.process_state == "D" and rank.process_state_s >= 1.0:
        return Activity("stuck", f"{{it}} wait{{s}} for a disk or a network file system{at}")
    if rank.major_faults_per_s >= SWAPPING_PER_S:
        pages = f"{rank.major_faults_per_s:.0f} pages a second"
        return Activity("stuck", f"{{its}} memory comes back from disk or swap ({pages}){at}")
    return None


def find_place(rank: RankSnapshot) -> Place | None:
    """Find the way in which a rank waits, if its stack tells."""
    innermost = rank.stack[-1]
    frames = [f"{frame.site} {frame.function}" for frame in rank.stack[-10:]]
    waits_inside = innermost.is_in_library and _WAITS_INSIDE.search(innermost.site)
    for place in _PLACES:
        if waits_inside and place.site and any(re.search(place.site, each) for each in frames):
            return place
        if rank.is_idle and place.code and re.search(place.code, innermost.code, re.IGNORECASE):
            return place
    return None


def find_sitting(rank: RankSnapshot) -> Sitting | None:
    """Find the call of a framework that a rank sits in; what user code it calls counts for more."""
    if not rank.is_running or not rank.stack:
        return None
    if not rank.stack[-1].is_in_library:
        return _find_in_place(rank)
    inner: list[Frame] = []
    for frame in reversed(rank.stack):
        if not frame.is_in_library:
            break
        inner.append(frame)
    for pattern, framework in _FRAMEWORKS:
        # The outermost one that fits is what the user has called.
        for frame in reversed(inner):
            if re.search(pattern, f"{frame.site} {frame.function}"):
                return _sit(frame, framework, describe_site(rank.stack, with_code=False))
    return None


def _sit(frame: Frame, framework: str, where: str) -> Sitting:
    if framework == "jit":
        return Sitting("a jitted function of jax", False, where, is_jit=True)
    is_init = framework == "init"
    package = _package(frame.site) if is_init else framework
    return Sitting(f"{frame.function} of {package}", is_init, where)


def _find_in_place(rank: RankSnapshot) -> Sitting | None:
    if rank.is_idle:
        where = describe_site(rank.stack, with_code=False)
        for pattern, package, is_init in _IN_PLACE:
            if found := re.search(pattern, rank.stack[-1].code):
                name = f"{found[1]} of {package}" if package else found[1]
                return Sitting(name, is_init, where)
    return None


def _native_code(rank: RankSnapshot) -> Activity:
    where = f" at {escape(describe_site(rank.stack))}" if rank.stack else ""
    computes = f", {rank.cpu_percent:.0f}% CPU" if rank.process_state else ""
    text = "{its} interpreter{n} {do} not answer: native code seems to hold it"
    return Activity("stuck" if rank.is_idle else "straggler", f"{text}{where}{computes}")


# --- where it is ---


def describe_site(stack: tuple[Frame, ...], with_code: bool = True) -> str:
    """Name the innermost call that users wrote, and the line of cell or program that led there."""
    if not stack:
        return ""
    own = next((frame for frame in reversed(stack) if not frame.is_in_library), stack[-1])
    program = own if stack[0].is_in_library or _is_same_file(stack[0], own) else stack[0]
    cell = next((frame for frame in reversed(stack) if frame.is_in_cell), program)
    where = own.site if own.is_in_cell else os.path.basename(own.site)
    if own.function not in ("<module>", ""):
        where = f"{where} in {own.function}"
    if own.code and with_code:
        where = f"{where} (`{cut(own.code, _MOST_CODE)}`)"
    if own.is_in_cell or cell is own:
        return where
    return f"{where}, called at {cell.site if cell.is_in_cell else os.path.basename(cell.site)}"


def _is_same_file(one: Frame, other: Frame) -> bool:
    return one.site.rpartition(":")[0] == other.site.rpartition(":")[0]


def _package(site: str) -> str:
    known = ("torch", "jax", "cupyx", "nccl")
    return next((name for name in known if f"{name}/" in site), "its framework")
