"""What goes wrong, told once for all contenders: a rank raises, C code is interrupted, a rank dies.

Each story gives a flat dictionary: keys that end in `_s` are seconds, all others are words.
"""

import os
import re
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from notebook_kernel import WAIT_S, Ran

RANKS = 4
LOST = 2
SURVIVORS = (0, 1, 3)
OTHERS_TAKE_S = 12.0
"""So long the other ranks are busy after one has raised, or died."""
INTERRUPT_AT_S = 4.0
PREPARE = "import hashlib, os, time\nkept = f'kept {rank}'"
SHOW = "print(kept)"
RAISE = "if rank == 1:\n    time.sleep(0.5)\n    raise ValueError(f'bad batch <{time.time()}>')\n"
WAITS = {
    "sleep": f"time.sleep(0.5 + {OTHERS_TAKE_S})",
    "collective": "comm.barrier()",
}
"""What the other ranks do meanwhile."""
DEATH = r"(rank|engine) '?2'? (is lost|died|process exited|failed)|EngineError|\b1 errors"
"""Words by which a contender tells that the rank is gone."""
LONG_C_CALL = (
    "began = time.time()\n"
    "digest = hashlib.pbkdf2_hmac('sha256', b'word', b'salt', {rounds})\n"
    "print('the C call took', round(time.time() - began, 1), 's')"
)


class Trouble(ABC):
    """A contender to which things happen; its ranks know `rank`."""

    waits: ClassVar[tuple[str, ...]] = ("sleep",)
    """Which of WAITS it offers."""

    @abstractmethod
    def run_cell(self, code: str, interrupts_s: Sequence[float] = (), *, on_error: str = "") -> Ran:
        """Run a cell on all ranks, as a person would in a notebook."""

    @abstractmethod
    def run_on_survivors(self, code: str) -> Ran:
        """Run a cell on the ranks that live, by the way that the contender offers."""

    @abstractmethod
    def pids(self) -> list[int]:
        """Give the processes of the ranks."""

    @abstractmethod
    def tell_state(self) -> str:
        """Say in one line what the contender itself says of its ranks."""

    @abstractmethod
    def knows_of_loss(self) -> bool:
        """Whether it says, when asked, that a rank is gone."""

    @abstractmethod
    def replace(self) -> str:
        """Put a new rank in the place of the lost one, by the best way that there is; name it."""


def a_rank_raises(sufferer: Trouble, way: str, on_error: str = "") -> dict[str, Any]:
    """Rank 1 raises after half a second; all figures count from there, by its own clock."""
    sufferer.run_cell(PREPARE)
    ran = sufferer.run_cell(RAISE + WAITS[way], on_error=on_error)
    found = re.search(r"bad batch <([0-9.]+)>", ran.text)
    raised_s = float(found[1]) - ran.began_s if found else 0.5
    shown_s = ran.seconds_until("ValueError: bad batch")
    after = sufferer.run_cell(SHOW)
    return {
        "error shown_s": shown_s - raised_s if shown_s is not None else None,
        "cell ended_s": ran.seconds - raised_s,
        "ended as": ran.ended_as,
        "next cell_s": after.seconds,
        "state kept": _count_kept(after, range(RANKS)),
        "said": ran.text,
    }


def c_code_is_interrupted(
    sufferer: Trouble, rounds: int, interrupts_s: Sequence[float]
) -> dict[str, Any]:
    """All ranks are in a C call that does not look at signals; ■ is pressed, then all go on."""
    sufferer.run_cell(PREPARE)
    ran = sufferer.run_cell(LONG_C_CALL.format(rounds=rounds), interrupts_s)
    state = sufferer.tell_state()
    after = sufferer.run_cell(SHOW)
    again = sufferer.run_cell(SHOW)
    return {
        "prompt back after ■_s": ran.seconds - interrupts_s[0],
        "ended as": ran.ended_as,
        "state told": state,
        "next cell_s": after.seconds,
        "next cell": "not within 60 s" if after.is_given_up else after.ended_as,
        "told while it waits": after.last_before("kept")[:200] or "nothing",
        "its output is shown": _count_kept(after, range(RANKS)),
        "state kept, by one cell more": _count_kept(again, range(RANKS)),
        "said": ran.text,
        "said by the next cell": after.text,
    }


def a_rank_is_killed(sufferer: Trouble, way: str) -> dict[str, Any]:
    """SIGKILL for rank 2: while all are idle, or while the others are busy; then life goes on."""
    sufferer.run_cell(PREPARE)
    victim = sufferer.pids()[LOST]
    facts: dict[str, Any] = dict.fromkeys(
        ("known when asked_s", "death told_s", "cell ended_s", "ended as", "names the signal")
    )
    if way == "idle":
        os.kill(victim, signal.SIGKILL)
        facts["known when asked_s"] = _wait_until_known(sufferer)
    else:
        facts |= _kill_in_a_cell(sufferer, way, victim)
    plain = sufferer.run_cell(SHOW)
    chosen = sufferer.run_on_survivors(SHOW)
    began = time.monotonic()
    try:
        means = sufferer.replace()
    except Exception as error:
        means = f"{type(error).__name__}: {error}"
    replaced_s = time.monotonic() - began
    after = sufferer.run_cell("print(globals().get('kept'))")
    return facts | {
        "next cell on all": plain.ended_as,
        "next cell on survivors": chosen.ended_as,
        "its state": _count_kept(chosen, SURVIVORS),
        "replaced by": means,
        "replaced_s": replaced_s,
        "cell on all then": after.ended_as,
        "survivors' state then": _count_kept(after, SURVIVORS),
        "said by the next cell": plain.text,
        "said by the cell on survivors": chosen.text,
        "said then": after.text,
    }


STORIES = {
    story.__name__: story for story in (a_rank_raises, c_code_is_interrupted, a_rank_is_killed)
}


def _kill_in_a_cell(sufferer: Trouble, way: str, victim: int) -> dict[str, Any]:
    killed: list[float] = []

    def kill() -> None:
        killed.append(time.time())
        os.kill(victim, signal.SIGKILL)

    timer = threading.Timer(1.0, kill)
    timer.start()
    busy = f"if rank == {LOST}:\n    time.sleep(60)\n{WAITS[way]}"
    ran = sufferer.run_cell(busy)
    timer.join()
    killed_s = killed[0] - ran.began_s
    told_s = ran.seconds_until(DEATH)
    return {
        "death told_s": told_s - killed_s if told_s is not None else None,
        "cell ended_s": ran.seconds - killed_s,
        "ended as": ran.ended_as,
        "names the signal": "yes" if "SIGKILL" in ran.text else "no",
        "said": ran.text,
    }


def _wait_until_known(sufferer: Trouble) -> float | None:
    began = time.monotonic()
    while not sufferer.knows_of_loss():
        if time.monotonic() - began > WAIT_S:
            return None
        time.sleep(0.01)
    return time.monotonic() - began


def _count_kept(ran: Ran, ranks: Sequence[int]) -> str:
    there = [rank for rank in ranks if f"kept {rank}" in ran.text]
    return f"{len(there)} of {len(ranks)}"
