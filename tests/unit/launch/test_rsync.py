import pytest

from jupyter_dist.launch.rsync import RsyncOrder, find_cause, read_progress, rsync_command
from jupyter_dist.model.spec import HostSpec


def command(host, base="/home/me"):
    return rsync_command(
        RsyncOrder(host, "/usr/bin/rsync", base, ("pkg/a.py",), "/tmp/run/in", "../old"), "/x/paths"
    )


def test_rsync_goes_the_way_that_ssh_went_to_start_the_agent():
    host = HostSpec("nodeA", user="me", port=2222, ssh=("ssh", "-F", "my config"))
    words = command(host)
    shell = words[words.index("-e") + 1]
    assert shell.startswith("ssh -F 'my config' -T -x -o BatchMode=yes ")
    assert shell.endswith(" -p2222 -l me")
    assert words[-3:] == ["--", "/home/me/", "nodeA:/tmp/run/in/"]
    assert "--files-from=/x/paths" in words
    assert "--rsync-path=/usr/bin/rsync" in words


def test_only_an_rsync_that_can_is_asked_to_tell_how_far_it_is():
    order = RsyncOrder(HostSpec("a"), "rsync", "/b", ("x",), "/t", "../old")
    assert "--info=progress2" in rsync_command(order, "/x/paths", is_telling=True)
    assert not [word for word in rsync_command(order, "/x/paths") if word.startswith("--info")]


LAST = "    300,000,000 100%  102.28MB/s    0:00:02 (xfr#1, to-chk=0/2)"


@pytest.mark.parametrize(
    ("said", "moved_bytes"),
    [
        ("", 0),
        ("\r         32,768   0%    0.00kB/s    0:00:00  ", 32768),
        (f"\r  110.034.944  36%  104,91MB/s    0:00:01  \r{LAST}\n", 300_000_000),
        ("sending incremental file list\n", 0),
        (f"{LAST}\r    309,32", 300_000_000),
    ],
)
def test_the_last_whole_line_of_its_progress_counts(said, moved_bytes):
    assert read_progress(said) == moved_bytes


def test_an_ipv6_address_keeps_its_brackets_and_the_root_its_one_slash():
    words = command(HostSpec("[fd00::1]"), base="/")
    assert words[-2:] == ["/", "[fd00::1]:/tmp/run/in/"]


def test_quotes_in_ssh_words_are_doubled_as_rsync_reads_them():
    words = command(HostSpec("a", ssh=("ssh", "-o", "ProxyCommand=sh -c 'x'", "")))
    shell = words[words.index("-e") + 1]
    assert shell.startswith("ssh -o 'ProxyCommand=sh -c ''x''' '' -T")


def test_the_cause_is_what_ssh_says_before_what_rsync_makes_of_it():
    said = """\
ssh: connect to host nodeC port 22: Connection refused
rsync: connection unexpectedly closed (0 bytes received so far) [sender]
rsync error: unexplained error (code 255) at io.c(232) [sender=3.2.7]
"""
    assert find_cause(said) == "ssh: connect to host nodeC port 22: Connection refused"
    assert find_cause("\n".join(said.splitlines()[1:])).startswith("rsync: connection unexp")
    assert find_cause("") == "it said nothing"
