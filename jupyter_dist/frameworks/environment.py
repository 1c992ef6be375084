"""What frameworks find in the environment of a rank, unless its user has chosen otherwise. Pure."""

import math
import re
from collections.abc import Mapping

from jupyter_dist.model.ranks.held_time import COLLECTIVE_TIMEOUT_S

_XLA_FLAGS = "XLA_FLAGS"
_TIMEOUT_FLAG = "xla_cpu_collective_timeout_seconds"
_SKIPPING_FLAG = "xla_disable_hlo_passes"
_COMBINER = "cpu-all-reduce-combiner"
"""Makes one collective of several; XLA on CPU goes on with the rest of it when the first fails.

A rank that does so leaves requests in gloo that its peers answer wrongly: their process is aborted,
or a rank waits for ever. Gloo takes the parts one after the other anyway. On GPUs the pass has
another name.
"""
_FIRST_KNOWING = {_TIMEOUT_FLAG: (0, 8, 2), _SKIPPING_FLAG: (0, 6, 0)}
"""From which release on jaxlib was seen to know a flag.

XLA aborts the process for a flag that it does not know: a release that nobody has tried gets none.
"""
_FIRST_UNTRIED = (0, 11, 0)
RESERVE_S = 3600.0
"""XLA's clock goes on while a rank is in the debugger, and no call can be given more time later. A
person who has chosen a time gets that; who has not gets time to look around in the debugger."""
_LONGEST_S = 1e9
"""More does not fit into the number that XLA reads."""
_SKIPPED = re.compile(rf"--{_SKIPPING_FLAG}=(\S+)")
_RELEASE = re.compile(r"(\d+)\.(\d+)\.(\d+)(.*)", re.DOTALL)


def framework_variables(
    given: Mapping[str, str], cores: int, jaxlib: str, collective_timeout_s: float
) -> dict[str, str]:
    """Return what is to be set beside the variables that a rank has.

    `cores` is the share of this rank, `jaxlib` the version that is installed, or empty.
    """
    # XLA's threads on CPU; PyTorch's go by OpenMP's number.
    wishes = {} if "NPROC" in given else {"NPROC": str(cores)}
    flags = given.get(_XLA_FLAGS, "")
    added = _add_flags(flags, jaxlib, collective_timeout_s)
    return wishes if added == flags else {**wishes, _XLA_FLAGS: added}


def _add_flags(flags: str, jaxlib: str, collective_timeout_s: float) -> str:
    """Let collectives of XLA on CPU end after this time at the latest, and each on its own."""
    if flags.strip() and not flags.strip().startswith("-"):
        return flags  # the name of a file of flags
    if _knows(jaxlib, _TIMEOUT_FLAG) and _TIMEOUT_FLAG not in flags:
        reserve_s = RESERVE_S if collective_timeout_s == COLLECTIVE_TIMEOUT_S else 0.0
        seconds = math.ceil(min(collective_timeout_s + reserve_s, _LONGEST_S))
        flags = f"{flags} --{_TIMEOUT_FLAG}={seconds}"
    if _knows(jaxlib, _SKIPPING_FLAG) and _COMBINER not in flags:
        given = _SKIPPED.search(flags)
        skipped = f"--{_SKIPPING_FLAG}={_COMBINER}"
        if given is None:
            flags = f"{flags} {skipped}"
        else:
            flags = flags.replace(given[0], f"{skipped},{given[1]}")
    return flags.strip()


def _knows(jaxlib: str, flag: str) -> bool:
    match = _RELEASE.match(jaxlib)
    if match is None:
        return False
    release, first = tuple(int(number) for number in match.groups()[:3]), _FIRST_KNOWING[flag]
    is_before_release = "dev" in match[4] or "rc" in match[4]
    return first <= release < _FIRST_UNTRIED and not (is_before_release and release == first)
