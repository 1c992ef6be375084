"""Hosts as the doctor saw them: healthy but for what a test changes."""

from msgspec.structs import replace

from jupyter_dist.cluster.doctor.diagnosis import NOTEBOOK, Attempt, HostFacts, Observation
from jupyter_dist.cluster.doctor.findings import diagnose
from jupyter_dist.model.hosts.interfaces import Interface
from jupyter_dist.model.spec.cluster_spec import HostSpec

GIB = 2**30
HEAD = "10.1.0.254"
ADDRESSES = {"a": "10.1.0.1", "b": "10.1.0.2", "c": "10.1.0.3"}
HEALTHY = HostFacts(
    python="3.11.7",
    executable="/usr/bin/python3",
    versions={"jupyter-dist": "0.1.0", "numpy": "2.4.0"},
    wire="jupyter-dist/4",
    release="0.1.0",
    first_port=32768,
    last_port=60999,
    limits={"nofile": (65536, 65536), "nproc": (-1, -1), "memlock": (-1, -1)},
    home="/root",
    temp_dir="/tmp",
    temp_free_bytes=100 * GIB,
    memory_free_bytes=100 * GIB,
    cores=16,
    memory_total_bytes=128 * GIB,
)


def facts_of(name, **changes):
    address = ADDRESSES.get(name, HEAD)
    interfaces = (Interface("lo", "127.0.0.1", 8), Interface("eth0", address, 24))
    own = {"interfaces": interfaces, "machine": f"machine of {name}"}
    return replace(HEALTHY, **(own | changes))


def attempts_of(*names, **outcomes):
    """Everybody tries everybody; `a_b="silent"` says how it went from a to b, `home` is here."""
    found = []
    for source in names:
        for target in (NOTEBOOK, *names):
            outcome = outcomes.get(f"{source}_{target or 'home'}", "ok")
            address = ADDRESSES.get(target, HEAD)
            if source != target:
                found.append(Attempt(source, target, address, outcome, ADDRESSES[source]))
    return tuple(found)


def observe(*names, hosts=None, outcomes=None, **changes):
    """Three healthy hosts, or those named, with some facts changed: `a={"python": "3.9.1"}`."""
    names = names or ("a", "b", "c")
    about = {name: changes.pop(name, {}) for name in (*names, "notebook")}
    facts = {name: facts_of(name, **about[name]) for name in names}
    facts[NOTEBOOK] = facts_of(NOTEBOOK, **about["notebook"])
    given = {"attempts": attempts_of(*names, **(outcomes or {})), "facts": facts}
    specs = hosts or tuple(HostSpec(name, 2, launcher="ssh") for name in names)
    return Observation(hosts=specs, **(given | changes))


def troubles(observation, subject=None):
    """What is not good, as (host, level, what)."""
    return [
        (finding.host, finding.level, finding.what)
        for finding in diagnose(observation).findings
        if finding.level != "good" and subject in (None, finding.subject)
    ]


def the_only(observation):
    """The only finding that is not good."""
    (found,) = [each for each in diagnose(observation).findings if each.level != "good"]
    return found


def assert_finds(observation, host, subject, level, what, *steps):
    """There is one finding that is not good: this one, whose next step names these."""
    found = the_only(observation)
    assert (found.host, found.subject, found.level) == (host, subject, level)
    for words in [what] if isinstance(what, str) else what:
        assert words in found.what
    assert all(step in found.next_step for step in steps), found.next_step


def briefs(observation, subject):
    found = [each for each in diagnose(observation).findings if each.subject == subject]
    return {each.host: each.brief for each in found}
