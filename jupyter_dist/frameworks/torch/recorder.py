"""torch's own flight recorder, and what keeps NCCL's watchdog from ending the process."""

import importlib.metadata
import os
import re

ENTRIES = 2000
"""Collectives that are remembered; some 500 bytes each."""
_NEW_NAMES_SINCE = (2, 9)
"""Later versions warn of the old names."""


def switch_on(run_dir: str) -> None:
    """Set what torch looks at when it is loaded; what the user has set stays."""
    for name, value in variables(installed_version(), run_dir).items():
        os.environ.setdefault(name, value)


def variables(version: tuple[int, ...], run_dir: str) -> dict[str, str]:
    """Give the variables for this version of torch. torch puts the rank behind the prefix."""
    prefix = f"{run_dir}/torch_rank_"
    found = {
        "TORCH_FR_BUFFER_SIZE": str(ENTRIES),
        "TORCH_FR_DUMP_TEMP_FILE": prefix,
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        # torch's default ends the whole process when a peer is gone; this only ends its NCCL.
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "2",
    }
    if version < _NEW_NAMES_SINCE:
        found["TORCH_NCCL_TRACE_BUFFER_SIZE"] = str(ENTRIES)
        found["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"] = prefix
    return found


def installed_version() -> tuple[int, ...]:
    """Give the version of torch without loading it; (0,) where there is none."""
    try:
        text = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return (0,)
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])
