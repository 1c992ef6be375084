import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.cluster.spec.host_list import hosts_of_job, parse_hostfile, parse_hosts
from jupyter_dist.errors import HostSpecError
from jupyter_dist.model.spec.cluster_spec import MOST_SLOTS, HostSpec


def names(text):
    return [host.name for host in parse_hosts(text)]


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("b:8, alice@a:2,c", (HostSpec("b", 8), HostSpec("a", 2, user="alice"), HostSpec("c", 0))),
        (
            "[::1]:4,bob@[fe80::1%eth0]",
            (HostSpec("[::1]", 4), HostSpec("[fe80::1%eth0]", user="bob")),
        ),
        ("alice@n[1-2]:8", tuple(HostSpec(name, 8, user="alice") for name in ("n1", "n2"))),
        ("a:4096,join:1", (HostSpec("a", MOST_SLOTS), HostSpec("join-1", launcher="join"))),
    ],
)
def test_hosts_keep_their_order_users_and_slots(text, hosts):
    assert parse_hosts(text) == hosts


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("node[01-03,07]", ["node01", "node02", "node03", "node07"]),
        ("n[0-1]-ib", ["n0-ib", "n1-ib"]),
        ("r[1-2]n[01,03]", ["r1n01", "r1n03", "r2n01", "r2n03"]),
        ("a[1, 3],b", ["a1", "a3", "b"]),
    ],
)
def test_ranges_are_expanded_with_their_zeros(text, expanded):
    assert names(text) == expanded


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "'' is not HOST "),
        ("a b:1", "'a b:1' is not HOST "),
        ("a;rm -rf:1", "is not HOST "),
        ("8", "localhost:8"),
        ("a:2,4", "localhost:4"),
        ("-oProxyCommand=x:1", "is not HOST "),
        ("node[1", "is not HOST "),
        ("node1]:2", "is not HOST "),
        ("a:", "slots, 1-4096"),
        ("a:0", "'0' is not "),
        ("a:4097", "'4097' is not "),
        ("a:" + "9" * 5000, "slots, 1-4096"),
        ("a:²", "'²' is not "),
        ("a:8:9", "'8:9' is not "),
        ("::1:4", "[::1:4] or [::1:4]:8"),
        ("bob@fd00::1", "[fd00::1]:8"),
        ("[10.0.0.1]:2", "'10.0.0.1' in '[10.0.0.1]:2' is not "),
        ("[fd00::1]x", "is not HOST "),
        ("@a:1", "'' in '@a:1' is not "),
        ("-l@a:1", "'-l' in '-l@a:1' is not "),
        ("node[]", "'' in 'node[]' is not "),
        ("node[a-b]", "'a-b' in 'node[a-b]' is not "),
        ("node[4-1]", "'4-1' in 'node[4-1]' ends "),
        ("node[1-04]", "'1-04' in 'node[1-04]' have "),
        ("node[1-4097]", " 4096 hosts"),
        ("node[1-999999999]", " 4096 hosts"),
        ("r[1-100]n[1-100]", " 4096 hosts"),
        ("a[1-3000],b[1-3000]", " 4096 hosts"),
        ("join", "join:N, as join:4"),
        ("bob@join:2", "'bob@join:2' names "),
        ("join:1,join:2", "join-1 is named "),
        ("a:1,b:1,a:2", "a is named "),
        ("a:2,user@a:2", "a is named "),
        ("a,A", "A is named "),
        ("n[1-3],n2", "n2 is named "),
        ("[::1],[0::1]", "[0::1] is named "),
    ],
)
def test_hosts_that_cannot_be_meant_are_refused_with_their_problem(text, problem):
    with pytest.raises(HostSpecError) as caught:
        parse_hosts(text)
    assert problem in caught.value.problem
    assert problem in str(caught.value)
    assert caught.value.given == text
    assert "localhost:4" in str(caught.value)


def test_4096_hosts_are_not_too_many():
    assert len(parse_hosts("node[0001-4096]:8")) == 4096


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        pytest.param(
            "# ours\na slots=8 max_slots=8\nbob@b slots=4 max_slots=8  # old\n\nc max-slots=2\n",
            (HostSpec("a", 8), HostSpec("b", 4, user="bob"), HostSpec("c", 2)),
            id="Open MPI",
        ),
        pytest.param("a:8\nb:4\n", (HostSpec("a", 8), HostSpec("b", 4)), id="MPICH"),
        pytest.param(
            "n[01-02],gpu7\n", (HostSpec("n01"), HostSpec("n02"), HostSpec("gpu7")), id="Slurm"
        ),
        pytest.param("a\nb\n", (HostSpec("a"), HostSpec("b")), id="plain"),
        pytest.param(
            "a\na\na\nb\nc\nc\n", (HostSpec("a", 3), HostSpec("b", 1), HostSpec("c", 2)), id="PBS"
        ),
        pytest.param("a slots=2\nb:1\na slots=3\n", (HostSpec("a", 5), HostSpec("b", 1)), id="sum"),
        pytest.param("a slots=2\na\nb\n", (HostSpec("a", 3), HostSpec("b", 1)), id="mixed"),
        pytest.param("[fd00::1] slots=2\r\n", (HostSpec("[fd00::1]", 2),), id="IPv6, CRLF"),
    ],
)
def test_host_files_of_every_kind_are_read(text, hosts):
    assert parse_hostfile(text, "hosts.txt") == hosts


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a slots=8\n\nb slots=x\n", "line 3: 'b slots=x': 'x' "),
        ("a slots=0", "line 1: 'a slots=0': '0' is not "),
        ("a slot=8", "'slot=8' is unknown"),
        ("a slots=8 max_slots=4", " max_slots=4. "),
        ("a:8 slots=8", "line 1: 'a:8 slots=8': "),
        ("a 8", "line 1: 'a 8': "),
        ("slots=8 a", "line 1: 'slots=8 a': "),
        ("a\nfd00::1\n", "line 2: 'fd00::1': "),
        ("a b:1 # x", "line 1: 'a b:1': "),
        ("n[1-", "line 1: 'n[1-': 'n[1-' is not HOST "),
        ("n[1-9999]", "line 1: 'n[1-9999]': "),
        ("join:4", "--hosts join:N"),
        ("a\nbob@a\n", "line 2: 'a': "),
        ("a[1-3000]\nb[1-3000]\n", "host file 'hosts.txt': "),
        ("", "host file 'hosts.txt': "),
        ("# nothing\n\n", "host file 'hosts.txt': "),
    ],
)
def test_a_host_file_that_cannot_be_meant_names_file_line_and_problem(text, problem):
    with pytest.raises(HostSpecError) as caught:
        parse_hostfile(text, "hosts.txt")
    assert problem in str(caught.value)
    assert "hosts.txt" in str(caught.value)
    assert "for example `node01 slots=8`" in str(caught.value)


def test_hosts_of_a_batch_job_are_numbered_and_otherwise_as_asked_for():
    like = HostSpec("", 4, user="alice")
    assert hosts_of_job("slurm", 3, like) == tuple(
        HostSpec(f"slurm-{number}", 4, launcher="join", user="alice") for number in (1, 2, 3)
    )


@given(st.integers(0, 120), st.integers(0, 20), st.integers(1, 4))
def test_a_range_is_all_numbers_between_its_ends_as_wide_as_they_are(first, more, width):
    last = first + more
    width = max(width, len(str(last))) if width > 1 else 0
    text = f"n[{first:0{width}d}-{last:0{width}d}]"
    assert names(text) == [f"n{number:0{width}d}" for number in range(first, last + 1)]
