import pytest
from fakes.seen_hosts import ADDRESSES, assert_finds, briefs, facts_of, observe, the_only, troubles
from msgspec.structs import replace

from jupyter_dist.cluster.doctor.diagnosis import NOTEBOOK, Attempt
from jupyter_dist.cluster.doctor.findings import diagnose
from jupyter_dist.model.hosts.interfaces import Interface
from jupyter_dist.model.spec.cluster_spec import HostSpec


def test_the_network_of_the_ranks_is_named():
    assert briefs(observe(), "network") == {"a": "eth0", "b": "eth0", "c": "eth0"}


def test_a_host_that_does_not_get_to_the_notebook_says_what_it_tried():
    observation = observe(outcomes={"b_home": "silent"})
    back = Attempt(NOTEBOOK, "b", ADDRESSES["b"], "ok")
    what = (" 10.1.0.254)", ", which ")
    steps = ("ports 32768-60999", "--interface", "--tunnel")
    seen = replace(observation, attempts=(*observation.attempts, back))
    assert_finds(seen, "b", "network", "bad", what, *steps)


def test_ports_that_were_asked_for_are_those_to_be_opened():
    observation = observe(outcomes={"b_home": "silent"}, ports="47000-47009")
    assert " 47000-47009 " in the_only(observation).next_step
    assert "--ports" in the_only(replace(observation, ports="")).next_step


def test_ports_of_which_none_is_free_are_told_instead_of_blaming_the_hosts():
    observation = observe(ports="47000-47009")
    tried = tuple(each for each in observation.attempts if each.target != NOTEBOOK)
    seen = replace(observation, attempts=tried)
    assert_finds(seen, NOTEBOOK, "ports", "bad", " 47000-47009 ", "--ports")


@pytest.mark.parametrize(
    ("outcome", "words", "step"),
    [
        ("refused", "10.1.0.254: refused", "firewall"),
        ("unreachable", "10.1.0.254: no route", "--interface"),
        ("other", "10.1.0.254: another ", "--interface"),
        ("full", "10.1.0.254: full", "--tunnel"),
    ],
)
def test_how_the_way_to_the_notebook_is_closed_decides_the_next_step(outcome, words, step):
    assert_finds(observe(outcomes={"a_home": outcome}), "a", "network", "bad", words, step)


def test_a_tunnel_needs_no_way_to_the_notebook_and_others_need_one():
    hosts = (HostSpec("a", 2, launcher="ssh", tunnel=True),)
    assert not troubles(observe("a", hosts=hosts, outcomes={"a_home": "silent"}))
    observation = observe(outcomes={"a_home": "silent"})
    other = Attempt("a", NOTEBOOK, "192.168.7.7", "ok", ADDRESSES["a"])
    assert not troubles(replace(observation, attempts=(*observation.attempts, other)))


@pytest.mark.parametrize("is_tried", [True, False])
def test_a_way_that_is_open_in_one_direction_names_it_if_both_were_tried(is_tried):
    observation = observe(outcomes={"a_b": "silent"})
    tried = [e for e in observation.attempts if is_tried or (e.source, e.target) != ("b", "a")]
    finding = the_only(replace(observation, attempts=tuple(tried)))
    assert finding.what.startswith("a ")
    assert " 10.1.0.2)" in finding.what
    assert finding.what.endswith(" a") == is_tried
    assert ("its firewall" in finding.next_step) == is_tried


def test_two_hosts_that_do_not_reach_each_other_are_told_in_the_same_words():
    found = troubles(observe(outcomes={"a_b": "silent", "b_a": "silent"}))
    assert [each[:2] for each in found] == [("a", "bad"), ("b", "bad")]
    assert found[0][2] == found[1][2]
    assert found[0][2].startswith("a and b ")
    assert " 10.1.0.2, 10.1.0.1)" in found[0][2]


def test_a_host_that_nobody_reaches_is_blamed_alone():
    away = {f"{a}_{b}": "unreachable" for a, b in (("a", "c"), ("c", "a"), ("b", "c"), ("c", "b"))}
    seen = observe(outcomes=away)
    assert_finds(seen, "c", "network", "bad", " a, b ")
    assert "no route" in the_only(seen).what


def test_a_closed_way_names_the_network_on_which_there_is_one():
    slow = {
        name: {"interfaces": (*facts_of(name).interfaces, Interface("eth1", f"10.9.0.{n}", 24))}
        for n, name in enumerate("ab", 1)
    }
    observation = observe("a", "b", **slow, outcomes={"a_b": "silent", "b_a": "silent"})
    home = observation.facts[NOTEBOOK]
    on_eth1 = (
        Attempt("a", "b", "10.9.0.2", "ok", "10.9.0.1"),
        Attempt("b", "a", "10.9.0.1", "ok", "10.9.0.2"),
    )
    diagnosis = diagnose(replace(observation, attempts=(*observation.attempts, *on_eth1)))
    step = diagnosis.of("a", "network")[0].next_step
    assert "10.9.0.0/24" in step
    assert "--interface" not in step
    there = (*home.interfaces, Interface("eth1", "10.9.0.9", 24))
    observation.facts[NOTEBOOK] = replace(home, interfaces=there)
    diagnosis = diagnose(replace(observation, attempts=(*observation.attempts, *on_eth1)))
    assert "--interface 10.9.0.0/24" in diagnosis.of("a", "network")[0].next_step
    # Nobody knows so of a network that only one of the two has a way on.
    diagnosis = diagnose(replace(observation, attempts=(*observation.attempts, on_eth1[0])))
    assert "10.9.0.0" not in diagnosis.of("a", "network")[0].next_step


def test_a_host_without_ipv6_is_told_from_one_without_a_route():
    lonely = {"interfaces": (Interface("eth0", "fd00::2", 64),)}
    observation = observe("a", "b", b=lonely)
    there = Attempt("a", "b", "fd00::2", "unreachable")
    seen = replace(observation, attempts=(*observation.attempts, there))
    assert_finds(seen, "b", "network", "bad", "fd00::2: a has no IPv6 address")


@pytest.mark.parametrize(
    ("asked", "where", "what"),
    [
        (
            {"hosts": (HostSpec("a", 2, interface="ib0"), HostSpec("b", 2))},
            "a",
            ("'ib0'", "lo (127.0.0.1/8), eth0 (10.1.0.1/24)"),
        ),
        ({"interface": "10.1.0.0/29"}, NOTEBOOK, "'10.1.0.0/29'"),
    ],
)
def test_a_wished_interface_that_a_machine_does_not_have_is_bad(asked, where, what):
    assert_finds(observe("a", "b", **asked), where, "network", "bad", what)


def test_proxies_are_a_warning_unless_they_are_off_for_all():
    observation = observe(a={"proxies": ("http_proxy", "all_proxy")})
    assert_finds(observation, "a", "network", "warning", "http_proxy, all_proxy ")
    assert not troubles(observe(a={"proxies": ("http_proxy",), "no_proxy": "*"}))
