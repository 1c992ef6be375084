"""What differs between the software of the hosts, as sentences."""

from collections.abc import Mapping

from jupyter_dist.model.text import name_some

CROSSING = ("python",)
"""Of these the minor version counts: functions that travel between two of them may not load."""
COMPARED = ("jupyter-dist", "numpy", "jax", "cupy", "torch", "nccl", "driver")
"""Of these every difference is told."""


def describe_differences(hosts: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """Say for each package which hosts have which version, where they are not all alike.

    `hosts` maps a host (the notebook is one) to its versions; a missing package is a version.
    """
    return tuple(
        sentence for package in (*CROSSING, *COMPARED) if (sentence := _describe(package, hosts))
    )


def _describe(package: str, hosts: Mapping[str, Mapping[str, str]]) -> str:
    groups: dict[str, list[str]] = {}
    for host, versions in hosts.items():
        version = versions.get(package, "")
        if package in CROSSING:
            version = ".".join(version.split(".")[:2])
        groups.setdefault(version, []).append(host)
    if len(groups) < 2:
        return ""
    parts = [
        f"{version or 'none'} on {name_some(names)}"
        for version, names in sorted(groups.items(), key=lambda item: -len(item[1]))
    ]
    return f"{package} differs: {', '.join(parts)}"
