"""What the doctor concludes about Python, jupyter-dist and the libraries on the hosts."""

from collections import Counter
from collections.abc import Mapping

from jupyter_dist.cluster.doctor.diagnosis import NOTEBOOK, Finding, HostFacts, Observation
from jupyter_dist.text.lists import name_some
from jupyter_dist.text.plurals import fit

OLDEST_PYTHON = (3, 11)
COMPARED = ("numpy", "jax", "cupy", "torch", "nccl", "driver")
"""Two ranks with different versions of these may compute, or refuse, different things."""
_SHOWN = ("numpy", "pyzmq", "grpcio", "ipython", "jax", "cupy", "torch", "nccl", "mpi4py", "driver")
_MISSING = "No module named 'jupyter_dist'"


def find_software(observation: Observation) -> list[Finding]:
    """Compare every host with the notebook, and the hosts with each other."""
    own = observation.facts[NOTEBOOK]
    findings: list[Finding] = []
    for host in observation.examined:
        facts = observation.facts[host.name]
        findings.append(_compare_python(host.name, facts, own))
        findings.append(_compare_ours(host.name, facts, own, observation.will_install))
    return findings + _compare_versions(observation)


def table_of_versions(observation: Observation) -> dict[str, dict[str, str]]:
    """Return package -> host -> version for every package that someone has."""
    names = (NOTEBOOK, *(host.name for host in observation.examined))
    known = {
        name: {**facts.versions, "python": facts.python, "jupyter-dist": _version_of_ours(facts)}
        for name, facts in observation.facts.items()
    }
    table = {
        package: {name: version for name in names if (version := known[name].get(package))}
        for package in ("python", "jupyter-dist", *_SHOWN)
    }
    return {package: row for package, row in table.items() if row}


def _version_of_ours(facts: HostFacts) -> str:
    return facts.release or facts.versions.get("jupyter-dist", "")


def _compare_python(host: str, facts: HostFacts, own: HostFacts) -> Finding:
    step = "Use the same Python on both: --python names another interpreter."
    if _minor(facts.python) < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        what = f"jupyter-dist needs Python {oldest} or newer; {facts.executable} is {facts.python}"
        return Finding(host, "python", "bad", what, step, facts.python)
    if _minor(facts.python) != _minor(own.python):
        what = (
            f"Python {facts.python} there and {own.python} in the notebook: functions and classes "
            "that travel between them may not load"
        )
        return Finding(host, "python", "warning", what, step, facts.python)
    return Finding(host, "python", "good", "", "", facts.python)


def _compare_ours(host: str, facts: HostFacts, own: HostFacts, will_install: bool) -> Finding:
    there, here = _version_of_ours(facts), _version_of_ours(own)
    brief = there or "none"
    if will_install and (facts.import_problem or there != here):
        return Finding(host, "jupyter-dist", "good", "", "", f"{brief}, will be {here}")
    step = (
        "Let --install put it there when you start, or name an environment that has it: --python."
    )
    if facts.wire and facts.wire == own.wire:
        if there == here:
            return Finding(host, "jupyter-dist", "good", "", "", brief)
        what = f"jupyter-dist {there} there and {here} in the notebook"
        same = "They understand each other; --install brings the same version."
        return Finding(host, "jupyter-dist", "warning", what, same, brief)
    if facts.wire:
        what = f"jupyter-dist {there} there speaks {facts.wire}, {here} in the notebook {own.wire}"
    elif facts.import_problem.endswith(_MISSING):
        what = f"{facts.executable} has no jupyter-dist"
    else:
        what = f"jupyter-dist cannot be imported by {facts.executable} ({facts.import_problem})"
    return Finding(host, "jupyter-dist", "bad", what, step, brief)


def _compare_versions(observation: Observation) -> list[Finding]:
    """Find the hosts that differ from most of the others; what nobody has is no difference."""
    names = [host.name for host in observation.examined]
    findings: list[Finding] = []
    missing: dict[str, list[str]] = {}
    for package in COMPARED:
        versions = {
            name: observation.facts[name].versions[package]
            for name in names
            if package in observation.facts[name].versions
        }
        for name in names if versions else ():
            if name not in versions:
                missing.setdefault(name, []).append(package)
            elif versions[name] != _usual(versions):
                findings.append(_differs(name, package, _usual(versions), observation))
    findings += [_lacks(name, packages, names, observation) for name, packages in missing.items()]
    different = {finding.host for finding in findings}
    return findings + [
        Finding(name, "versions", "good", "") for name in names if name not in different
    ]


def _differs(name: str, package: str, usual: str, observation: Observation) -> Finding:
    facts = observation.facts
    having = [
        host.name
        for host in observation.examined
        if facts[host.name].versions.get(package) == usual
    ]
    # Two releases of NCCL refuse to form a communicator, or hang.
    is_bad = package == "nccl" and facts[name].gpus and any(facts[each].gpus for each in having)
    version = facts[name].versions[package]
    what = f"{package} is {version} there, and {usual} on {name_some(having)}"
    step = f"Install the same {package} on all hosts."
    if package == "driver":
        step = "Install the same NVIDIA driver on all hosts, or use those that have it."
    return Finding(name, "versions", "bad" if is_bad else "warning", what, step)


def _lacks(name: str, packages: list[str], names: list[str], observation: Observation) -> Finding:
    others = [
        other
        for other in names
        if any(package in observation.facts[other].versions for package in packages)
    ]
    are = fit(packages, "is", "are")
    what = f"{name_some(packages)} {are} missing there, but not on {name_some(others)}"
    return Finding(name, "versions", "warning", what, "Install the same packages on all hosts.")


def _usual(versions: Mapping[str, str]) -> str:
    """Return the version that most have; among equally many that of the host named first."""
    return Counter(versions.values()).most_common(1)[0][0]


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
