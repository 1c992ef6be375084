"""What differs between the software of the hosts, as sentences."""

from collections.abc import Mapping

from jupyter_dist.model.text import name_some

CROSSING = ("python",)
"""Of these the minor version counts: functions that travel between two of them may not load."""
COMPARED = ("jupyter-dist", "numpy", "jax", "cupy", "torch", "nccl", "nccl4py", "driver")
"""Of these every difference is told."""


NOTEBOOK = "the notebook's side"


def describe_differences(
    notebook: Mapping[str, str], hosts: Mapping[str, Mapping[str, str]]
) -> tuple[str, ...]:
    """Say for each package which hosts have which version, where they are not all alike.

    A package that a host lacks is a difference; what the notebook's side lacks it may not need.
    """
    sentences = []
    for package in (*CROSSING, *COMPARED):
        sides = {NOTEBOOK: notebook, **hosts} if package in notebook else hosts
        sentences.append(_describe(package, sides))
    return tuple(sentence for sentence in sentences if sentence)


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
    return f"{package} differs: {'; '.join(parts)}"
