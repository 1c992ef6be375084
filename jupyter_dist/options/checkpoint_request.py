"""What a person asks of checkpoints of variables, read and checked before it goes to ranks."""

import re
from collections.abc import Sequence

import msgspec

from jupyter_dist.errors import UsageError

DEFAULT_DIRECTORY = "checkpoints"
"""Where checkpoints are, in the working directory of whoever asks, unless said."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_STEP = re.compile(r"step-\d+")


class SaveRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Variables to be saved."""

    directory: str
    """Whole path of the one that gets a directory for each step."""
    names: tuple[str, ...] = ()
    """Empty: those that are marked."""
    is_everything: bool = False
    """All that can be saved."""
    keep_last: int | None = None
    is_background: bool = False
    cache: str = ""
    """Directory on a disk of each host that gets a copy of what its ranks write; empty: none."""


class RestoreRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Variables to be restored."""

    directory: str
    names: tuple[str, ...] = ()
    """Empty: all that were saved."""
    step: int | None = None
    """None: the newest."""
    with_objects: bool = False
    """Whether objects that only pickle can read are loaded: they may run any code."""
    cache: str = ""


class LookRequest(msgspec.Struct, frozen=True):
    """A directory whose checkpoints are to be listed, or the question which it would be."""

    directory: str = ""
    """Empty: where variables were saved last is to be told, and nothing else."""


class WaitRequest(msgspec.Struct, frozen=True):
    """What is saved behind cells is to be waited for."""


def check_checkpoint_name(name: str) -> str:
    """Return the name back, or raise UsageError: it becomes the name of a directory."""
    is_plain = isinstance(name, str) and _NAME.fullmatch(name) is not None
    if not is_plain or _STEP.fullmatch(name) is not None:
        raise UsageError(
            f"checkpoint name {name!r} is not accepted. Use letters, digits, '-', '_' or '.', at "
            "most 100 of them, and not the form step-N; the place is said by --dir."
        )
    return name


def check_variables(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of variables, each once. Raise UsageError for what cannot be a name."""
    for name in names:
        if not isinstance(name, str) or not name.isidentifier():
            raise UsageError(
                f"{name!r} is not the name of a variable; what is saved are variables of the "
                "ranks, as weights. Give an expression a name in a cell first."
            )
    return tuple(dict.fromkeys(names))


def check_keep_last(count: int | None) -> int | None:
    """Return the number of checkpoints to keep (None: all); raises UsageError below 1."""
    if count is not None and (isinstance(count, bool) or count < 1):
        raise UsageError(f"keep last {count} is not accepted: give 1 or more, or leave it out.")
    return count


def check_step(step: int | None) -> int | None:
    """Return the step back (None: the newest); raises UsageError for one that cannot be."""
    if step is not None and (isinstance(step, bool) or not isinstance(step, int) or step < 0):
        raise UsageError(
            f"step {step!r} is not accepted: give 0 or more, or leave it out for the newest. "
            "%dist_checkpoints lists those that are there."
        )
    return step
