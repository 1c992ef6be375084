"""What was asked for: the specification of a cluster and of each of its hosts."""

import re

import msgspec

from jupyter_dist.errors import HostSpecError, UsageError
from jupyter_dist.model.health import HealthPolicy

COMMUNICATOR_KINDS = ("auto", "ring", "none")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(:(?P<slots>[^:]*))?")
_DURATION = re.compile(r"(?P<number>\d+(\.\d+)?)(?P<unit>ms|s|m|h|d)?")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}


class HostSpec(msgspec.Struct, frozen=True):
    """One host and the number of engines it shall run."""

    name: str
    slots: int


class ClusterSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster as asked for; every field has passed the checks of `check_spec`."""

    name: str
    hosts: tuple[HostSpec, ...]
    communicator: str = "auto"
    timeout_s: float = 60.0
    keep_s: float = 900.0
    env: dict[str, str] = {}
    cwd: str = "."
    start_method: str = "fork"
    collective_timeout_s: float = 1800.0
    health: HealthPolicy = HealthPolicy()

    @property
    def world_size(self) -> int:
        """Number of ranks over all hosts."""
        return sum(host.slots for host in self.hosts)


def parse_hosts(text: str) -> tuple[HostSpec, ...]:
    """Read `a:8,b:8`; raises HostSpecError naming what was given and what is accepted."""
    hosts: list[HostSpec] = []
    for part in (piece.strip() for piece in text.split(",")):
        match = _HOST.fullmatch(part)
        if match is None:
            raise HostSpecError(text, f"{part!r} is not HOST:SLOTS")
        slots_text = match["slots"]
        if slots_text is None:
            raise HostSpecError(text, f"{part!r} does not say how many slots")
        if not slots_text.isdecimal() or int(slots_text) < 1:
            raise HostSpecError(text, f"{slots_text!r} is not a number of slots")
        hosts.append(HostSpec(match["name"], int(slots_text)))
    names = [host.name for host in hosts]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise HostSpecError(text, f"{', '.join(twice)} is named twice")
    return tuple(hosts)


def parse_duration_s(text: str) -> float:
    """Read `90`, `90s`, `15m`, `2h`, `1d` as seconds."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"duration {text!r} is not understood. Accepted: a number with s, m, h or d, "
            "for example 15m."
        )
    return float(match["number"]) * _UNIT_S[match["unit"]]


def check_spec(spec: ClusterSpec) -> ClusterSpec:
    """Return the spec, or raise UsageError for the first thing that cannot be meant."""
    if _NAME.fullmatch(spec.name) is None:
        raise UsageError(
            f"cluster name {spec.name!r} is not accepted. Use letters, digits, '-', '_' or '.', "
            "at most 64 of them."
        )
    if spec.communicator not in COMMUNICATOR_KINDS:
        raise UsageError(
            f"communicator {spec.communicator!r} is unknown. "
            f"Accepted: {', '.join(COMMUNICATOR_KINDS)}."
        )
    for what, seconds in (("timeout", spec.timeout_s), ("keep", spec.keep_s)):
        if not seconds > 0:
            raise UsageError(f"{what} {seconds} is not accepted: it must be more than 0 s.")
    if spec.start_method not in ("fork", "spawn"):
        raise UsageError(f"start method {spec.start_method!r}: accepted are fork and spawn.")
    return spec
