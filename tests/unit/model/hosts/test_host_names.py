import pytest

from jupyter_dist.model.hosts.host_names import name_hosts, place_in_order


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        ([], ""),
        (["a", "b"], "a, b"),
        (["node1", "node2"], "node1, node2"),
        (["node01", "node02", "node03", "node07"], "node[01-03,07]"),
        (["gpu3.lan", "gpu1.lan", "gpu2.lan", "login"], "gpu[1-3].lan, login"),
        (["n8", "n9", "n10", "n11", "n12"], "n8, n9, n[10-12]"),
        (["10.0.0.1", "10.0.0.2", "10.0.0.4"], "10.0.0.[1-2,4]"),
        (list("abcdefgh"), "a, b, c, d, e and 3 more"),
    ],
)
def test_hosts_that_differ_in_a_number_share_brackets(hosts, text):
    assert name_hosts(hosts) == text


def test_hosts_are_sorted_as_people_count():
    names = ["node10", "node2", "login", "node2-b", "10.0.0.9", "node"]
    in_order = ["10.0.0.9", "login", "node", "node2", "node2-b", "node10"]
    assert sorted(names, key=place_in_order) == in_order
