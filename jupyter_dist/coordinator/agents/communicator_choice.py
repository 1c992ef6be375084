"""Which communicator a cluster gets, from what its hosts have."""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from jupyter_dist.errors import UsageError
from jupyter_dist.model.spec.cluster_spec import OLD_NAME_OF_RING
from jupyter_dist.probe.software import SYSTEM
from jupyter_dist.text.lists import name_by_reason, name_some
from jupyter_dist.text.plurals import count_of, fit

_FEWEST_DRIVER_OF_CUDA_13 = 580
_SHARING_NCCL = (2, 30)
"""From here on NCCL lets several ranks have one device."""
_OLD_NAME = (
    f"comm is ring: --comm {OLD_NAME_OF_RING} is an old name of it, which later releases refuse. "
    "Write --comm ring instead"
)
_NEEDED = {"cupy": "CuPy", "nccl": "NCCL"}


class HostDevices(msgspec.Struct, frozen=True):
    """What counts of one host."""

    ranks: int
    devices: tuple[str, ...] = ()
    versions: Mapping[str, str] = {}
    gpu_problem: str = ""
    """Why its GPUs cannot be asked, where a driver is there."""

    @property
    def is_short(self) -> bool:
        """It has devices, but not one for each of its ranks."""
        return 0 < len(self.devices) < self.ranks


class Choice(msgspec.Struct, frozen=True):
    """The kind of communicator, and what the user should know about it, one sentence each."""

    kind: str
    notes: tuple[str, ...] = ()


def choose_communicator(
    asked: str, hosts: Mapping[str, HostDevices], oversubscribe: bool
) -> Choice:
    """Choose nccl for `auto` where every host can do it, else ring; any other kind is granted.

    Raises UsageError, naming each host with its reason, when a kind that was asked for cannot be.
    """
    too_old = too_old_to_share(hosts) if oversubscribe else {}
    # A note where nccl is asked for: ranks with an NCCL_HOSTID each share a device with any NCCL.
    reasons = _against_nccl(hosts, oversubscribe, {} if asked == "nccl" else too_old)
    if asked == "nccl":
        if reasons:
            steps = " ".join((*_steps(hosts, oversubscribe), "Or choose --comm ring."))
            raise UsageError(f"--comm nccl cannot be: {name_by_reason(reasons)}. {steps}")
        note = f"{name_by_reason(too_old)}, or give each rank an NCCL_HOSTID of its own"
        return Choice("nccl", (note,) if too_old else ())
    if asked == "auto":
        has_any = any(host.devices or host.gpu_problem for host in hosts.values())
        if not reasons or not has_any:
            return Choice("ring" if reasons else "nccl")
        note = f"comm is ring, in the memory of the hosts, not nccl: {name_by_reason(reasons)}."
        return Choice("ring", (" ".join((note, *_steps(hosts, oversubscribe))).rstrip("."),))
    kind = "ring" if asked == OLD_NAME_OF_RING else asked
    notes = [] if kind == asked else [_OLD_NAME]
    short = {name: _shortage(host) for name, host in hosts.items() if host.is_short}
    if short and not oversubscribe:
        steps = " ".join(_steps(hosts, oversubscribe))
        notes.append(f"{name_by_reason(short)}. {steps}".rstrip("."))
    return Choice(kind, tuple(notes))


def too_old_to_share(hosts: Mapping[str, HostDevices]) -> dict[str, str]:
    """Say of each host that has too few devices whether its NCCL lets ranks share them."""
    found = {}
    for name, host in hosts.items():
        version = host.versions.get("nccl", SYSTEM)
        if host.is_short and version != SYSTEM and _number(version) < _SHARING_NCCL:
            found[name] = f"NCCL {version} wants a device for each rank (2.30 lets them share)"
    return found


def _against_nccl(
    hosts: Mapping[str, HostDevices], oversubscribe: bool, too_old: Mapping[str, str]
) -> dict[str, str]:
    """Return for each host that cannot take part in NCCL the reasons, as one phrase."""
    known = [host.versions.get("nccl", SYSTEM) for host in hosts.values()]
    usual = Counter(version for version in known if version != SYSTEM).most_common(1)
    found: dict[str, str] = {}
    for name, host in hosts.items():
        reasons = _lacks(host, oversubscribe)
        if name in too_old:
            reasons.append(too_old[name])
        version = host.versions.get("nccl", SYSTEM)
        if host.devices and version != SYSTEM and version != usual[0][0]:
            reasons.append(f"its NCCL is {version}, and {usual[0][0]} elsewhere")
        if reasons:
            found[name] = ", ".join(reasons)
    return found


def _lacks(host: HostDevices, oversubscribe: bool) -> list[str]:
    """Return what a host on its own lacks for NCCL."""
    if not host.devices:
        return [f"no GPU is found ({host.gpu_problem})" if host.gpu_problem else "it has no GPU"]
    reasons = []
    if host.is_short and not oversubscribe:
        reasons.append(_shortage(host))
    missing = [words for package, words in _NEEDED.items() if package not in host.versions]
    if missing:
        are = fit(missing, "is", "are")
        reasons.append(f"{' and '.join(missing)} {are} missing (pip install {_packages(host)})")
    return reasons


def _shortage(host: HostDevices) -> str:
    devices = count_of(len(host.devices), "device")
    return f"{host.ranks} ranks on {devices}, so none has one of its own"


def _packages(host: HostDevices) -> str:
    """Name what pip is to install, for the CUDA that the driver can run."""
    major = _number(host.versions.get("driver", ""))[:1]
    cuda = 13 if major >= (_FEWEST_DRIVER_OF_CUDA_13,) else 12
    wanted = {"cupy": f"cupy-cuda{cuda}x", "nccl": f"nvidia-nccl-cu{cuda}", "nccl4py": "nccl4py"}
    return " ".join(name for package, name in wanted.items() if package not in host.versions)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())


def _steps(hosts: Mapping[str, HostDevices], oversubscribe: bool) -> Sequence[str]:
    """Say both ways out where ranks have no device of their own."""
    short = {name: host for name, host in hosts.items() if host.is_short}
    if not short or oversubscribe:
        return ()
    fewer = name_some([f"{name}:{len(host.devices)}" for name, host in short.items()])
    return (f"Ask for {fewer}, or let ranks share devices with --oversubscribe.",)
