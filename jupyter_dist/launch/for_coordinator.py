"""What must be so on the machine of the coordinator, from which agents are started."""

from concurrent.futures import ThreadPoolExecutor

from msgspec.structs import replace

from jupyter_dist.errors import HostSpecError
from jupyter_dist.launch.local import is_this_machine
from jupyter_dist.model.spec.batch import ORCHESTRATORS, BatchSpec
from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec

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
