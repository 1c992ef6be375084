"""What the doctor concludes about the ways between the hosts and to the notebook's machine."""

from collections import Counter
from collections.abc import Mapping, Sequence

from jupyter_dist.cluster.doctor.diagnosis import NOTEBOOK, Attempt, Finding, Observation
from jupyter_dist.errors import UsageError
from jupyter_dist.model.hosts.interfaces import (
    HostNetwork,
    Interface,
    choose_interfaces,
    find_interface,
)
from jupyter_dist.model.spec.cluster_spec import HostSpec
from jupyter_dist.text.lists import group_pairs, name_some
from jupyter_dist.text.plurals import fit

_WHY = {
    "refused": "refused",
    "silent": "no answer",
    "unreachable": "no route",
    "other": "another machine answers",
}
_WITHOUT_PROXY = "*"


def find_network(observation: Observation) -> list[Finding]:
    """Find the ways that a cluster needs and that are closed."""
    closed = _no_port_at_home(observation)
    findings = list(closed)
    for host in observation.examined:
        findings += [] if closed else _way_home(host, observation)
        findings += _proxies(host, observation)
    given = {NOTEBOOK: observation.interface}
    given |= {host.name: host.interface or observation.interface for host in observation.examined}
    unknown = [each for name, wish in given.items() for each in _unknown(name, wish, observation)]
    # The ranks' network is chosen for all hosts together, or not at all.
    chosen = {} if unknown else choose_interfaces(_networks(observation))
    findings += unknown + (_ways_between(observation, chosen) if chosen else [])
    troubled = {finding.host for finding in findings}
    for host in observation.examined:
        if host.name not in troubled:
            brief = _name_network(host.name, chosen, observation)
            findings.append(Finding(host.name, "network", "good", "", "", brief))
    return findings


def _name_network(host: str, chosen: dict[str, Interface], observation: Observation) -> str:
    if host not in chosen:
        return ""
    if chosen[host].is_loopback:
        # With the other hosts missing nobody knows what network they would have in common.
        return "loopback" if len(chosen) == len(observation.hosts) else ""
    return chosen[host].name


def _unknown(host: str, wish: str, observation: Observation) -> list[Finding]:
    """Say so where a host has no interface of the wished name, or in the wished network."""
    interfaces = observation.facts[host].interfaces
    if not wish:
        return []
    try:
        find_interface(interfaces, wish, host)
    except UsageError:
        there = name_some([str(each) for each in interfaces])
        who = "the notebook's machine" if host == NOTEBOOK else "it"
        what = f"{who} has no interface {wish!r}, but {there or 'none at all'}"
        step = "Name another one with --interface, or in the specification."
        return [Finding(host, "network", "bad", what, step)]
    return []


def _networks(observation: Observation) -> dict[str, HostNetwork]:
    return {
        host.name: HostNetwork(
            observation.facts[host.name].interfaces,
            _own_end(host.name, observation),
            host.interface or observation.interface,
            observation.facts[host.name].machine,
        )
        for host in observation.examined
    }


def _own_end(host: str, observation: Observation) -> str:
    """Return the host's end of its way to the notebook's machine; empty when there is none."""
    return next(
        (each.own_address for each in _tried(observation, host, NOTEBOOK) if each.outcome == "ok"),
        "",
    )


def _tried(observation: Observation, source: str, target: str) -> list[Attempt]:
    return [each for each in observation.attempts if (each.source, each.target) == (source, target)]


def _no_port_at_home(observation: Observation) -> list[Finding]:
    """Say so where nobody could listen here: then nobody has tried to come."""
    is_tried = any(each.target == NOTEBOOK for each in observation.attempts)
    if is_tried or not observation.ports or not observation.examined:
        return []
    what = f"none of the ports {observation.ports} of the notebook's machine is free"
    step = "Name others with --ports, or see who holds them (ss -tlnp)."
    return [Finding(NOTEBOOK, "ports", "bad", what, step)]


def _way_home(host: HostSpec, observation: Observation) -> list[Finding]:
    """Every agent and engine dials the coordinator, which runs on the notebook's machine."""
    tried = _tried(observation, host.name, NOTEBOOK)
    if host.tunnel or any(each.outcome == "ok" for each in tried):
        return []
    back = _tried(observation, NOTEBOOK, host.name)
    one_way = any(each.outcome == "ok" for each in back)
    ways = _name_attempts(tried, observation) or "it has no address that others could use"
    what = f"it cannot reach the notebook's machine ({ways})"
    what += ", which reaches it" if one_way else ""
    return [Finding(host.name, "network", "bad", what, _open_home(tried, observation))]


def _open_home(tried: Sequence[Attempt], observation: Observation) -> str:
    own = observation.facts[NOTEBOOK]
    outcomes = {each.outcome for each in tried}
    if outcomes & {"silent", "refused"}:
        any_port = f"{own.first_port}-{own.last_port} (or fewer, named with --ports)"
        return (
            f"Let the notebook's firewall accept TCP connections to ports "
            f"{observation.ports or any_port} from this host, choose another network with "
            "--interface, or go through ssh with --tunnel."
        )
    return "Name a network that both are in with --interface, or go through ssh with --tunnel."


def _ways_between(observation: Observation, chosen: dict[str, Interface]) -> list[Finding]:
    """Return which hosts do not reach which others on the network that the ranks would use."""
    closed = {
        (each.source, each.target): each
        for each in observation.attempts
        if each.source in chosen
        and each.target in chosen
        and each.address == chosen[each.target].address
        and each.outcome != "ok"
    }
    opened = {(each.source, each.target) for each in observation.attempts if each.outcome == "ok"}
    both_ways = {pair for pair in closed if pair[::-1] in closed}
    findings: list[Finding] = []
    while both_ways:
        # Whoever has no way to most of the others is likely to be the one in trouble.
        count = Counter(source for source, _ in both_ways)
        host = max(chosen, key=lambda name: count[name])
        others = [name for name in chosen if (host, name) in both_ways]
        findings += _separated(host, others, closed, observation)
        both_ways -= {pair for pair in both_ways if host in pair}
    for target in chosen:
        sources = [
            source
            for source in chosen
            if (source, target) in closed and (target, source) not in closed
        ]
        if sources:
            is_seen = all((target, source) in opened for source in sources)
            findings.append(_one_way(target, sources, closed, observation, is_seen=is_seen))
    return findings


def _separated(
    host: str,
    others: Sequence[str],
    closed: Mapping[tuple[str, str], Attempt],
    observation: Observation,
) -> list[Finding]:
    tried = [closed[pair] for other in others for pair in ((host, other), (other, host))]
    ways = _name_attempts(tried, observation)
    step = _other_way(host, others, observation) or _open([host, *others], observation)
    if len(others) > 1:
        what = f"it and {name_some(others)} cannot reach each other ({ways})"
        return [Finding(host, "network", "bad", what, step)]
    what = f"{host} and {others[0]} cannot reach each other ({ways})"
    return [Finding(name, "network", "bad", what, step) for name in (host, *others)]


def _one_way(
    target: str,
    sources: Sequence[str],
    closed: Mapping[tuple[str, str], Attempt],
    observation: Observation,
    *,
    is_seen: bool,
) -> Finding:
    """Return who does not reach a host; `is_seen`: it was seen to reach them.

    Among many hosts not every way is tried in both directions.
    """
    ways = _name_attempts([closed[source, target] for source in sources], observation)
    them = "them" if len(sources) > 1 else sources[0]
    what = f"{name_some(sources)} cannot reach it ({ways})"
    what += f", although it reaches {them}" if is_seen else ""
    one_sided = [target] if is_seen else [target, *sources]
    step = _other_way(target, sources, observation) or _open(one_sided, observation)
    return Finding(target, "network", "bad", what, step)


def _reason(attempt: Attempt, observation: Observation) -> str:
    interfaces = observation.facts[attempt.source].interfaces
    has_ipv6 = any(":" in each.address and not each.is_loopback for each in interfaces)
    if attempt.outcome == "unreachable" and ":" in attempt.address and not has_ipv6:
        return f"{attempt.source} has no IPv6 address"
    return _WHY.get(attempt.outcome, attempt.outcome)


def _other_way(host: str, others: Sequence[str], observation: Observation) -> str:
    """Name a network on which all of these reach each other."""
    networks = {
        each.network: each.address
        for each in observation.facts[host].interfaces
        if not each.is_loopback
    }
    at_home = {each.network for each in observation.facts[NOTEBOOK].interfaces}
    for network, address in sorted(networks.items(), key=lambda item: item[0].version):
        there = [
            each.address
            for other in others
            for each in observation.facts[other].interfaces
            if each.network == network
        ]
        ways = [
            *(_is_open(observation, other, host, address) for other in others),
            *(any(_is_open(observation, host, other, end) for end in there) for other in others),
        ]
        if all(ways):
            # --interface says as well where the notebook's machine listens.
            if network in at_home:
                return f"On another network there is a way: choose it with --interface {network}."
            return (
                f"There is a way on {network}: make that the interface of these hosts in a "
                "specification."
            )
    return ""


def _is_open(observation: Observation, source: str, target: str, address: str) -> bool:
    tried = _tried(observation, source, target)
    return any(each.address == address and each.outcome == "ok" for each in tried)


def _open(hosts: Sequence[str], observation: Observation) -> str:
    facts = observation.facts[hosts[0]]
    whose = fit(hosts, "its firewall", "their firewalls")
    return (
        f"Let {whose} accept TCP connections to ports {facts.first_port}-{facts.last_port} from "
        "the other hosts, or choose another network with --interface."
    )


def _name_attempts(tried: Sequence[Attempt], observation: Observation) -> str:
    by_reason = group_pairs((_reason(each, observation), each.address) for each in tried)
    return "; ".join(
        f"no answer from {name_some(list(dict.fromkeys(addresses)))}"
        if reason == _WHY["silent"]
        else f"{name_some(list(dict.fromkeys(addresses)))}: {reason}"
        for reason, addresses in by_reason.items()
    )


def _proxies(host: HostSpec, observation: Observation) -> list[Finding]:
    """The agents pass proxies by; libraries with rendezvous of their own (JAX) go through them."""
    facts = observation.facts[host.name]
    if not facts.proxies or facts.no_proxy.strip() == _WITHOUT_PROXY:
        return []
    what = (
        f"{name_some(facts.proxies)} {fit(facts.proxies, 'is', 'are')} set there: "
        "what libraries say to other hosts may go through the proxy"
    )
    step = "Set no_proxy=* or unset the variables in its setup commands, unless that is meant."
    return [Finding(host.name, "network", "warning", what, step)]
