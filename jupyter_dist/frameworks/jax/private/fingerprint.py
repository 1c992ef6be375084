"""Tells compiled programs apart: by what they compute, not by where they stand in the source."""

import hashlib
import re

_PLACES = re.compile(r", (?:metadata|frontend_attributes|backend_config)=\{(?:[^{}]|\{[^{}]*\})*\}")
"""Of an instruction or of the module: source lines, and how this very machine computes it."""
_TABLES = re.compile(
    r"^(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:.+\n)*\n?", re.MULTILINE
)
"""Of source lines, before the first computation."""
_COLLECTIVES = re.compile(
    r"[ )](?:all-reduce|all-gather|reduce-scatter|all-to-all|ragged-all-to-all|send|recv"
    r"|collective-permute|collective-broadcast)(?:-start)?\("
    r"|custom_call_target=\"[^\"]*(?:nccl|nvshmem|mpi)",
    re.IGNORECASE,
)
"""Instructions in which devices meet."""
_GROUPS = re.compile(r"\b((?:replica_groups|source_target_pairs)=\S+?)(?:,?\s|$)")
"""As `replica_groups={{0,1},{2,3}}` or `replica_groups=[2,2]<=[4]`."""
_DIGITS = 16


def fingerprint(program_text: str, device_ids: tuple[int, ...]) -> str:
    """Write down in short what a program computes on which devices, in their order.

    `program_text` is its HLO, with large constants, as all ranks compile it.
    """
    plain = _TABLES.sub("", _PLACES.sub("", program_text))
    digest = hashlib.sha256(plain.encode())
    digest.update(repr(device_ids).encode())
    return digest.hexdigest()[:_DIGITS]


def has_collectives(program_text: str) -> bool:
    """Return whether devices meet in a program; one without may run on some of its ranks only."""
    return _COLLECTIVES.search(program_text) is not None


def find_groups(program_text: str) -> set[str]:
    """Return the groups in which devices meet in a program, in its own words."""
    return set(_GROUPS.findall(program_text))
