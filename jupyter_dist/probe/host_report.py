"""What a host is: the facts that the doctor asks for.

The source of this file is sent to a host and run by whatever Python answers there. So it imports
the standard library only, and keeps to what Python 3.6 understands.
"""

import contextlib
import json
import os
import platform
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from typing import Any

if sys.platform != "win32":
    import fcntl
    import pwd
    import resource

PROGRAMS = []  # type: list[subprocess.Popen[bytes]]
"""Programs that run for us now; whoever ends this process ends them first."""
_PROGRAM_TIMEOUT_S = 10.0
_DISTRIBUTIONS = {
    "jupyter-dist": ("jupyter-dist",),
    "numpy": ("numpy",),
    "pyzmq": ("pyzmq",),
    "grpcio": ("grpcio",),
    "ipython": ("ipython",),
    "jax": ("jax",),
    "cupy": ("cupy-cuda12x", "cupy-cuda13x", "cupy"),
    "torch": ("torch",),
    "nccl": ("nvidia-nccl-cu12", "nvidia-nccl-cu13"),
    "mpi4py": ("mpi4py",),
}
_CSV = "--format=csv,noheader,nounits"
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
_EXPECTED = (OSError, ValueError, LookupError, subprocess.SubprocessError)
"""What the odd system gives where the usual one gives an answer."""


def report() -> "dict[str, Any]":
    """Return every fact; a part that this system does not tell is left out."""
    facts = {}  # type: dict[str, Any]
    parts = (_identity, _software, _import_ours, _gpus, _interfaces, _ports, _limits, _space)
    for part in (*parts, _machine, _environment):
        with contextlib.suppress(*_EXPECTED):
            facts.update(part())
    return facts


def _identity() -> "dict[str, Any]":
    return {"python": platform.python_version(), "executable": sys.executable}


def _software() -> "dict[str, Any]":
    found = {}
    for package, names in _DISTRIBUTIONS.items():
        versions = [version for version in map(_version_of, names) if version]
        found.update({package: versions[0]} if versions else {})
    with contextlib.suppress(OSError):
        found["driver"] = _read("/sys/module/nvidia/version").strip()
    return {"versions": found}


def _version_of(name: str) -> str:
    """Return the version of an installed distribution, or an empty text; imports nothing of it."""
    try:
        from importlib.metadata import PackageNotFoundError, version
    except ImportError:  # Python 3.7 and older, which we do not run on
        return ""
    try:
        return version(name) or ""
    except PackageNotFoundError:
        return ""


def _import_ours() -> "dict[str, Any]":
    """Import our own wire: being installed is not enough, what it needs must be there as well."""
    try:
        from jupyter_dist.protocol.codec import VERSION
        from jupyter_dist.version import __version__
    except Exception as problem:  # noqa: BLE001  (a broken installation may raise anything)
        return {"import_problem": f"{type(problem).__name__}: {problem}"[:300]}
    return {"wire": VERSION.decode("ascii", "replace"), "release": __version__}


def _gpus() -> "dict[str, Any]":
    program = shutil.which("nvidia-smi")
    if program is None:
        if os.path.exists("/proc/driver/nvidia/version"):
            return {"gpu_problem": "the driver is loaded, but there is no nvidia-smi"}
        return {}
    # Names come last: they may hold commas.
    status, text = _run([program, "--query-gpu=index,uuid,memory.total,memory.used,name", _CSV])
    if status != 0:
        return {"gpu_problem": " ".join(text.split())[-300:]}
    gpus = [
        {
            "index": int(index),
            "uuid": uuid,
            "name": name,
            "memory_total_bytes": _mebibytes(total),
            "memory_used_bytes": _mebibytes(used),
        }
        for index, uuid, total, used, name in _rows(text, 5)
    ]
    query = "--query-compute-apps=gpu_uuid,pid,used_memory,process_name"
    status, text = _run([program, query, _CSV])
    occupants = [
        {
            "uuid": uuid,
            "pid": int(pid),
            "user": _owner(int(pid)),
            "name": os.path.basename(name),
            "memory_bytes": _mebibytes(used),
        }
        for uuid, pid, used, name in _rows(text if status == 0 else "", 4)
    ]
    return {"gpus": gpus, "occupants": occupants}


def _rows(text: str, columns: int) -> "list[list[str]]":
    rows = [[cell.strip() for cell in line.split(",", columns - 1)] for line in text.splitlines()]
    return [row for row in rows if len(row) == columns]


def _mebibytes(text: str) -> int:
    return int(text) * 2**20 if text.isdigit() else 0  # "[N/A]" where the driver does not say


def _owner(pid: int) -> str:
    """Name the user of a process; empty when it is in another container."""
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _interfaces() -> "dict[str, Any]":
    rdma = "/sys/class/infiniband"
    program = shutil.which("ip") or "/sbin/ip"  # not on everybody's PATH
    try:
        status, text = _run([program, "-j", "address"])
        found = _from_ip(json.loads(text)) if status == 0 else _from_kernel()
    except (OSError, ValueError):  # no such program, or one that is too old for JSON
        found = _from_kernel()
    return {"interfaces": found, "rdma": sorted(os.listdir(rdma)) if os.path.isdir(rdma) else []}


def _from_ip(links: "list[dict[str, Any]]") -> "list[dict[str, Any]]":
    return [
        _interface(link["ifname"], address["local"], address["prefixlen"])
        for link in links
        if "UP" in link.get("flags", ())
        for address in link.get("addr_info", ())
        if address.get("scope") != "link" and "local" in address
    ]


def _from_kernel() -> "list[dict[str, Any]]":
    """Ask the kernel itself: one IPv4 address for each interface, and all of IPv6."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            with contextlib.suppress(OSError):  # it has none
                address = fcntl.ioctl(any_socket.fileno(), 0x8915, request)[20:24]  # SIOCGIFADDR
                mask = fcntl.ioctl(any_socket.fileno(), 0x891B, request)[20:24]  # SIOCGIFNETMASK
                bits = format(int.from_bytes(mask, "big"), "b").count("1")
                found.append(_interface(name, socket.inet_ntoa(address), bits))
    with contextlib.suppress(OSError):
        for line in _read("/proc/net/if_inet6").splitlines():
            digits, _, bits_text, scope, _, name = line.split()
            if scope != "20":  # of the link only
                address6 = socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))
                found.append(_interface(name, address6, int(bits_text, 16)))
    return found


def _interface(name: str, address: str, prefix_length: int) -> "dict[str, Any]":
    speed_mbps = 0
    with contextlib.suppress(OSError, ValueError):  # virtual links have no speed
        speed_mbps = max(0, int(_read(f"/sys/class/net/{name}/speed")))
    return {
        "name": name,
        "address": address,
        "prefix_length": prefix_length,
        "speed_mbps": speed_mbps,
    }


def _ports() -> "dict[str, Any]":
    first, last = map(int, _read("/proc/sys/net/ipv4/ip_local_port_range").split())
    taken = set()  # type: set[int]
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            lines = _read(table).splitlines()[1:]
            taken.update(int(line.split()[1].rpartition(":")[2], 16) for line in lines)
    inside = [port for port in taken if first <= port <= last]
    return {"first_port": first, "last_port": last, "taken_ports": len(inside)}


def _limits() -> "dict[str, Any]":
    numbers = {
        name: getattr(resource, f"RLIMIT_{name.upper()}")
        for name in ("nofile", "nproc", "memlock", "core")
    }
    # As (soft, hard); -1 is no limit at all.
    return {"limits": {name: resource.getrlimit(number) for name, number in numbers.items()}}


def _space() -> "dict[str, Any]":
    home = os.path.expanduser("~")
    temp_dir = tempfile.gettempdir()
    found = {"home": home, "home_problem": _why_not_writable(home), "temp_dir": temp_dir}  # type: dict[str, Any]
    found["temp_free_bytes"] = _free_bytes(temp_dir)
    if os.path.isdir("/dev/shm"):  # noqa: S108  (only looked at)
        found["memory_free_bytes"] = _free_bytes("/dev/shm")  # noqa: S108
    return found


def _why_not_writable(folder: str) -> str:
    """Write a file that has no name, or is gone at once; gives the system's own words."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"?")
            file.flush()
    except OSError as problem:
        return problem.strerror or str(problem)
    return ""


def _free_bytes(folder: str) -> int:
    state = os.statvfs(folder)
    return state.f_bavail * state.f_frsize


def _machine() -> "dict[str, Any]":
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    found = {"cores": os.cpu_count() or 1, "memory_total_bytes": pages * page_bytes}  # type: dict[str, Any]
    if hasattr(os, "sched_getaffinity"):
        found["cores"] = len(os.sched_getaffinity(0))
    found["machine"] = machine_id()
    return found


def machine_id() -> str:
    """Name this machine: the same for two processes only if they share kernel and network.

    Two containers of one machine are told apart by their network namespaces.
    """
    try:
        boot = _read("/proc/sys/kernel/random/boot_id").strip()
        return f"{boot}/{os.stat('/proc/self/ns/net').st_ino}"
    except OSError:
        return socket.gethostname()


def _environment() -> "dict[str, Any]":
    """Name the proxies that are set; their values may hold passwords."""
    lower = {name.lower(): value for name, value in os.environ.items()}
    return {
        "proxies": [name for name in _PROXIES if lower.get(name)],
        "no_proxy": lower.get("no_proxy", ""),
    }


def _run(command: "list[str]") -> "tuple[int, str]":
    """Run a program; gives its status and what it said (the end of stderr, when it failed)."""
    program = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert program.stdout is not None
    PROGRAMS.append(program)
    try:
        output, _ = program.communicate(timeout=_PROGRAM_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        program.kill()
        program.stdout.close()
        return 1, f"{os.path.basename(command[0])} does not answer"
    finally:
        PROGRAMS.remove(program)
    return program.returncode, output.decode("utf-8", "replace")


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
