"""What a start is asked for, put together from its arguments, a host file or a spec file."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from msgspec.structs import replace

from jupyter_dist.cluster.spec.agent_launch import apply_launcher
from jupyter_dist.cluster.spec.checks import (
    check_directory,
    find_directory,
    free_name,
    read_text_file,
    whole_path,
)
from jupyter_dist.cluster.spec.host_list import parse_coordinator, parse_hostfile, parse_hosts
from jupyter_dist.cluster.spec.spec_file import names_hosts, read_spec
from jupyter_dist.errors import HostSpecError, UsageError
from jupyter_dist.launch.for_coordinator import is_here, resolve_launchers
from jupyter_dist.model.spec.cluster_spec import (
    JOIN,
    ClusterSpec,
    HostSpec,
    check_spec,
    default_hosts,
    default_timeout_s,
    parse_ssh,
)
from jupyter_dist.model.spec.devices import parse_devices_per_engine
from jupyter_dist.model.spec.sendable import check_sendable, shorten
from jupyter_dist.options.start_options import AllOptions, ClusterOptions, StrPath

INSTALL_TIMEOUT_S = 600.0
"""How long a start may take, unless said, when hosts may have to fetch packages first."""
_PATIENCE = ("suspect_after_s", "lost_after_s")
"""Wishes that are a field of the spec's HealthPolicy."""
_PUT_TOGETHER = ("name", "env", "cwd", "wheelhouse", "save_on_preempt")
"""Fields to which a wish adds, or that are checked on this machine."""
_FIELDS = {"comm": "communicator"} | {
    name: name
    for name in ClusterOptions.__annotations__.keys() | {"interface", "ports"}
    if name in ClusterSpec.__struct_fields__ and name not in _PUT_TOGETHER
}
"""Wishes that are a field of ClusterSpec as they stand."""


def specify(
    hosts: str | Sequence[HostSpec] | None = None, **given: Unpack[AllOptions]
) -> ClusterSpec:
    """Return the specification that a start would use; nothing is started.

    Options win over what the spec file says; variables of both are joined. Launchers are
    resolved: `local` for this machine, else `ssh`. Raise UsageError.
    """
    if unknown := sorted(set(given) - set(AllOptions.__annotations__)):
        raise TypeError(f"{unknown[0]!r} is no option of a start")
    asked: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    check_sendable({"hosts": hosts, **asked})
    hostfile, spec_file = asked.pop("hostfile", None), asked.pop("spec", None)
    if "devices_per_engine" in asked:
        asked["devices_per_engine"] = parse_devices_per_engine(asked["devices_per_engine"])
    named = _read_named(hosts, hostfile)
    draft = _place_coordinator(
        asked, _read_draft(spec_file, named, asked.get("devices_per_engine", 1))
    )
    spec = _apply(asked, apply_launcher(asked, draft, _name_given(hosts, hostfile, spec_file)))
    text = hosts if isinstance(hosts, str) else ",".join(host.name for host in spec.hosts)
    spec = check_spec(spec)
    if spec.coordinator is None:  # else names are read where it is
        spec = replace(spec, hosts=resolve_launchers(spec, text))
    is_here = spec.coordinator is None
    hosts_wanted = (_apply_to(host, asked, is_seen_from_here=is_here) for host in spec.hosts)
    return check_spec(replace(spec, hosts=tuple(hosts_wanted)))


def _name_given(
    hosts: str | Sequence[HostSpec] | None,
    hostfile: StrPath | None,
    spec_file: StrPath | ClusterSpec | None,
) -> str:
    """Say by what hosts were named; empty: by nothing."""
    if hosts is not None:
        return hosts if isinstance(hosts, str) else ",".join(host.name for host in hosts)
    if hostfile is not None:
        return str(hostfile)
    if isinstance(spec_file, ClusterSpec):
        is_job = spec_file.batch is not None and all(h.launcher == JOIN for h in spec_file.hosts)
        return "" if is_job else ",".join(host.name for host in spec_file.hosts)
    if spec_file is not None and names_hosts(read_text_file(spec_file, "spec file")):
        return f"[[hosts]] of {spec_file}"
    return ""


def name_in(spec_file: StrPath | ClusterSpec | None) -> str:
    """Return the name that a specification has on its own; empty: none. Raises UsageError."""
    return _read_draft(spec_file, (), 1).name


def _read_named(
    hosts: str | Sequence[HostSpec] | None, hostfile: StrPath | None
) -> tuple[HostSpec, ...]:
    """Read the hosts that stand outside of a spec file; empty when nobody named any."""
    if hosts is not None and hostfile is not None:
        raise UsageError(
            f"hosts {hosts!r} and host file {str(hostfile)!r} both name hosts. Give one of them."
        )
    if hostfile is not None:
        return parse_hostfile(read_text_file(hostfile, "host file"), str(hostfile))
    if hosts is None:
        return ()
    if isinstance(hosts, str):
        return parse_hosts(hosts)
    strange = [host for host in hosts if not isinstance(host, HostSpec)]
    if strange or not hosts:
        problem = f"{strange[0]!r} is not a HostSpec" if strange else "there is none"
        raise HostSpecError(str(hosts), f"{problem}; give a text, or a sequence of HostSpec")
    return tuple(hosts)


def _read_draft(
    spec_file: StrPath | ClusterSpec | None, named: tuple[HostSpec, ...], devices_per_engine: int
) -> ClusterSpec:
    """Return the specification before any wish; its name may be empty."""
    if isinstance(spec_file, ClusterSpec):
        if spec_file.hosts and named:
            raise UsageError("The spec names hosts, and so do you. Leave out one of both.")
        found = spec_file.hosts or named or parse_hosts(default_hosts(devices_per_engine))
        return replace(spec_file, hosts=found)
    if spec_file is not None:
        return read_spec(read_text_file(spec_file, "spec file"), spec_file, named)
    found = named or parse_hosts(default_hosts(devices_per_engine))
    return ClusterSpec(name="", hosts=found, timeout_s=default_timeout_s(found))


def _place_coordinator(asked: Mapping[str, Any], draft: ClusterSpec) -> ClusterSpec:
    """Say where the coordinator is to be, and how ssh gets there from here."""
    host = draft.coordinator
    if "coordinator" in asked:
        host = parse_coordinator(asked["coordinator"])
    if host is None or _is_this_machine(host):
        return replace(draft, coordinator=None)
    if asked.get("install", draft.install) or asked.get("wheelhouse", draft.wheelhouse):
        raise UsageError(
            f"install and coordinator {host.name!r} do not go together: what is installed comes "
            "from the machine of the coordinator. Install jupyter-dist there and on the hosts, and "
            "leave --install and --wheelhouse out."
        )
    ssh = parse_ssh(asked["ssh"]) if "ssh" in asked else host.ssh
    return replace(draft, coordinator=replace(host, ssh=ssh, python=asked.get("python", "")))


def _is_this_machine(coordinator: HostSpec) -> bool:
    is_named = coordinator.launcher != JOIN and not coordinator.user
    return is_named and is_here(coordinator.address)


def _apply(asked: Mapping[str, Any], draft: ClusterSpec) -> ClusterSpec:
    """Apply the wishes that concern the whole cluster; a wheelhouse is there to install from."""
    wheelhouse = asked.get("wheelhouse", draft.wheelhouse)
    if wheelhouse:
        asked = {"install": True, **asked}
    if asked.get("install", draft.install) and draft.timeout_s == default_timeout_s(draft.hosts):
        asked = {"timeout_s": INSTALL_TIMEOUT_S, **asked}
    return replace(
        draft,
        name=asked.get("name") or draft.name or free_name(),
        env={**draft.env, **asked.get("env", {})},
        **_place_ranks(asked, draft),
        wheelhouse=_check_wheelhouse(wheelhouse) if wheelhouse else "",
        save_on_preempt=whole_path(asked.get("save_on_preempt", draft.save_on_preempt)),
        health=replace(draft.health, **{key: asked[key] for key in _PATIENCE if key in asked}),
        **{field: asked[wish] for wish, field in _FIELDS.items() if wish in asked},
    )


def _place_ranks(asked: Mapping[str, Any], draft: ClusterSpec) -> dict[str, Any]:
    """Return where ranks work: a directory of this machine, or one of the coordinator's."""
    if draft.coordinator is None:
        return {"cwd": check_directory(asked.get("cwd", draft.cwd))}
    if "cwd" in asked:
        return {"cwd": os.fspath(asked["cwd"]), "is_cwd_optional": False}
    if draft.cwd == ".":
        return {"cwd": check_directory(None), "is_cwd_optional": True}
    return {}


def _apply_to(host: HostSpec, asked: Mapping[str, Any], *, is_seen_from_here: bool) -> HostSpec:
    """Apply the wishes that concern one host, whose launcher is known here or elsewhere."""
    host = replace(host, python=asked.get("python", host.python))
    if host.launcher not in ("auto", "ssh"):
        return host
    has_ssh = is_seen_from_here and "ssh" in asked
    ssh = parse_ssh(asked["ssh"]) if has_ssh else host.ssh
    return replace(host, ssh=ssh, tunnel=asked.get("tunnel", host.tunnel))


def _check_wheelhouse(given: StrPath) -> str:
    directory = find_directory(given)
    if not directory:
        raise UsageError(
            f"wheelhouse {shorten(str(given))} is not a directory on this machine. Fill one with "
            "`pip wheel --wheel-dir DIR jupyter-dist`, on a machine like the hosts."
        )
    return directory
