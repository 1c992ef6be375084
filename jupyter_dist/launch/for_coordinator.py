"""What must be so on the machine of the coordinator, from which agents are started."""

import os
from concurrent.futures import ThreadPoolExecutor

from msgspec.structs import replace

from jupyter_dist.errors import HostSpecError, UsageError
from jupyter_dist.launch.files.connection_file import check_name_is_free
from jupyter_dist.launch.local import is_this_machine
from jupyter_dist.launch.processes.open_files import check_open_files
from jupyter_dist.model.spec.batch import ORCHESTRATORS, BatchSpec
from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec
from jupyter_dist.model.spec.sendable import shorten

_LOOKUPS_AT_ONCE = 32


def resolve_launchers(spec: ClusterSpec, given: str) -> tuple[HostSpec, ...]:
    """Replace the launcher `auto`; raises HostSpecError when this machine has two names."""
    unknown = [host for host in spec.hosts if host.launcher == "auto"]
    # Each name may take a resolver's whole patience.
    with ThreadPoolExecutor(_LOOKUPS_AT_ONCE) as threads:
        answers = threads.map(is_here, (host.address for host in unknown))
        found = dict(zip((host.name for host in unknown), answers, strict=True))
    here = [h for h in spec.hosts if h.launcher == "local" or found.get(h.name)]
    if len(here) > 1 and not spec.one_machine:
        slots = 0 if any(host.slots == 0 for host in here) else sum(host.slots for host in here)
        once = f"{here[0].name}:{slots}" if slots else here[0].name
        names = ", ".join(host.name for host in here[:-1]) + f" and {here[-1].name}"
        raise HostSpecError(
            given,
            f"{names} are the same machine (this one); name it once: {once} (a rehearsal of many "
            "hosts on one machine is allowed by one_machine in a spec file or in Cluster.start)",
        )
    # Someone else on this machine is reached as on any other.
    return tuple(
        replace(host, launcher="local" if found[host.name] and not host.user else "ssh")
        if host.name in found
        else host
        for host in spec.hosts
    )


def settle_here(spec: ClusterSpec) -> ClusterSpec:
    """Return what a coordinator that was to be elsewhere starts here, whatever that depends on.

    Raise DistError for what this machine cannot start.
    """
    check_name_is_free(spec.name)
    check_open_files(spec)
    check_launcher(spec.batch)
    given = ",".join(host.name for host in spec.hosts)
    hosts = resolve_launchers(spec, given)
    return replace(spec, coordinator=None, hosts=hosts, cwd=_find_directory(spec))


def _find_directory(spec: ClusterSpec) -> str:
    """Return where ranks work, from the root on. Raise UsageError for one that must be here."""
    home = os.path.expanduser("~")
    directory = os.path.realpath(os.path.join(home, os.path.expanduser(spec.cwd)))
    if not (spec.is_cwd_optional or os.path.isdir(directory)):
        raise UsageError(
            f"working directory {shorten(spec.cwd)} does not exist there, where --cwd is read. "
            "One that only other hosts have is named in a spec file, as cwd of those hosts."
        )
    return directory


def check_launcher(batch: BatchSpec | None) -> None:
    """Raise UsageError when this machine cannot submit this job, or its template is none."""
    if batch is None:
        return
    if batch.system in ORCHESTRATORS:
        from jupyter_dist.launch.orchestrators.clients import check_client

        check_client(batch)
        return
    from jupyter_dist.launch.batch.submission import check_available
    from jupyter_dist.launch.batch.templates import check_template

    check_available(batch.system, is_within=batch.is_within)
    if batch.template:
        check_template(batch.template)


def is_here(address: str) -> bool:
    """Return whether it is this machine; a name that only ssh's configuration knows is not."""
    try:
        return is_this_machine(address)
    except (OSError, UnicodeError):
        return False
