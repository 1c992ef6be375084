"""What frameworks find in the environment of a rank, unless its user has chosen otherwise. Pure."""

import math
import re
from collections.abc import Mapping

_XLA_FLAGS = "XLA_FLAGS"
_TIMEOUT_FLAG = "xla_cpu_collective_timeout_seconds"
_KNOWING_JAXLIB = ((0, 8, 2), (0, 11, 0))
"""From the first of these releases on, and before the second, jaxlib was seen to know that flag.

XLA aborts the process for a flag that it does not know: a release that nobody has tried gets none.
"""
_LONGEST_S = 1e9
"""More does not fit into the number that XLA reads."""
_RELEASE = re.compile(r"(\d+)\.(\d+)\.(\d+)(.*)", re.DOTALL)


def framework_variables(
    given: Mapping[str, str], cores: int, jaxlib: str, collective_timeout_s: float
) -> dict[str, str]:
    """Give what is to be set beside the variables that a rank has.

    `cores` is the share of this rank, `jaxlib` the version that is installed, or empty.
    """
    wishes = {"NPROC": str(cores)}  # XLA's threads on CPU; PyTorch's go by OpenMP's number
    wishes = {name: value for name, value in wishes.items() if name not in given}
    flags = given.get(_XLA_FLAGS, "")
    with_timeout = _add_timeout(flags, jaxlib, collective_timeout_s)
    return wishes if with_timeout == flags else {**wishes, _XLA_FLAGS: with_timeout}


def _add_timeout(flags: str, jaxlib: str, collective_timeout_s: float) -> str:
    """Let collectives of XLA on CPU end after this time at the latest."""
    is_file = flags.strip() and not flags.strip().startswith("-")
    if is_file or _TIMEOUT_FLAG in flags or not _knows_timeout(jaxlib):
        return flags
    seconds = math.ceil(min(collective_timeout_s, _LONGEST_S))
    return f"{flags} --{_TIMEOUT_FLAG}={seconds}".strip()


def _knows_timeout(jaxlib: str) -> bool:
    match = _RELEASE.match(jaxlib)
    if match is None:
        return False
    release = tuple(int(number) for number in match.groups()[:3])
    first, end = _KNOWING_JAXLIB
    is_before_release = "dev" in match[4] or "rc" in match[4]
    return first <= release < end and not (is_before_release and release == first)
