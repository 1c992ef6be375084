"""Which CUDA devices a host has for its ranks, and which one each of them gets.

A device is written as in CUDA_VISIBLE_DEVICES: a number, or how its UUID begins (GPU-…, MIG-…).
"""

from collections.abc import Sequence
from itertools import takewhile

from jupyter_dist.errors import UsageError
from jupyter_dist.text.plurals import count_of

VISIBLE = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"
AS_NVML = "PCI_BUS_ID"
"""Value of CUDA_DEVICE_ORDER with which a number means the same to CUDA, NVML and nvidia-smi."""
ALL = 0
"""As the number of devices for each engine: all that its host has."""
ALL_WORD = "all"
_UUIDS = ("GPU-", "MIG-")


def visible_devices(
    asked: tuple[int, ...], inherited: str | None, gpu_count: int
) -> tuple[str, ...]:
    """List a host's devices: those asked for, else those CUDA_VISIBLE_DEVICES has, else all.

    Where NVML counts no GPU there is none, unless someone has asked for it by number.
    """
    if asked:
        return tuple(str(device) for device in asked)
    if inherited is None or gpu_count == 0:
        return tuple(str(device) for device in range(gpu_count))

    def is_there(entry: str) -> bool:
        return entry.startswith(_UUIDS) or (entry.isdecimal() and int(entry) < gpu_count)

    # CUDA, too, ignores everything from the first entry on that it does not know.
    entries = takewhile(is_there, (entry.strip() for entry in inherited.split(",")))
    return tuple(dict.fromkeys(entries))


def parse_devices_per_engine(given: int | str) -> int:
    """Read `2` or `all`, for which it gives ALL."""
    text = str(given).strip()
    if text == ALL_WORD:
        return ALL
    if text.isdecimal() and int(text) > 0 and not isinstance(given, bool):
        return int(text)
    raise UsageError(
        f"devices per engine {given!r} is not accepted. Give a whole number, 1 or more, or all: "
        "one rank on each host, which sees all of its devices."
    )


def write_devices_per_engine(number: int) -> int | str:
    """Write it as people do."""
    return ALL_WORD if number == ALL else number


def make_shares(devices: Sequence[str], per_engine: int) -> tuple[str, ...]:
    """Divide devices of a host into what each rank sees, as `0,1`; what is left over is unused."""
    size = per_engine if per_engine != ALL else len(devices)
    whole = len(devices) // size if size else 0
    return tuple(",".join(devices[i * size : (i + 1) * size]) for i in range(whole))


def share_out(ranks: int, shares: Sequence[str], oversubscribe: bool) -> tuple[str, ...]:
    """Return the share of each rank of a host; empty when one of them would go without."""
    if ranks > len(shares) and not (shares and oversubscribe):
        return ()
    return tuple(shares[local_rank % len(shares)] for local_rank in range(ranks))


def first_device(share: str) -> str:
    """Return the device of a share that is number 0 to its rank; empty when it has none."""
    return share.partition(",")[0]


def why_not_shared(
    host: str, ranks: int, device_count: int, per_engine: int, *, is_count_asked: bool
) -> str:
    """Return why a host cannot give each rank so many devices, and what to do; empty: it can.

    `is_count_asked` is whether someone said how many ranks, or they follow from the devices.
    """
    if per_engine == 1 or (per_engine == ALL and ranks <= 1):
        return ""
    if per_engine == ALL:
        return (
            f"{host}: {ranks} ranks are asked for, and {_option(ALL)} means one on "
            f"each host. Ask for {host}:1, or give each rank a number of devices."
        )
    if device_count == 0:
        has = f"{host} has no GPU"
        return f"{has}, and {_option(per_engine)} wants {per_engine} for each rank. Leave it out."
    has = f"{host} has {count_of(device_count, 'GPU')}"
    divisors = [str(n) for n in range(1, device_count + 1) if device_count % n == 0]
    instead = f"Choose {', '.join(divisors)} or {ALL_WORD}"
    fitting, rest = divmod(device_count, per_engine)
    if fitting == 0:
        return f"{has}, and {_option(per_engine)} wants {per_engine} for each rank. {instead}."
    if is_count_asked and ranks > fitting:
        asked = f"{ranks} ranks with {per_engine} each want {ranks * per_engine}"
        each = device_count // ranks
        fewer = f", or for {_option(each)}" if each else ""
        return f"{has}, and {asked}. Ask for {host}:{fitting}{fewer}."
    if not is_count_asked and rest:
        many = f"or say how many ranks it takes: {host}:{fitting}"
        return f"{has}, which {_option(per_engine)} does not divide. {instead}, {many}."
    return ""


def _option(per_engine: int) -> str:
    return f"--devices-per-engine {write_devices_per_engine(per_engine)}"


def index_on_host(device: str, uuids: Sequence[str]) -> int | None:
    """Return NVML's number of a device; `uuids` are those of the GPUs, in that order."""
    if device.isdecimal():
        return int(device)
    found = [index for index, uuid in enumerate(uuids) if device and uuid.startswith(device)]
    return found[0] if len(found) == 1 else None
