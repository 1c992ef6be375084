import pytest

from jupyter_dist.model.hosts.start_stage import HostProgress, StartStage
from jupyter_dist.protocol.messages import StartProgress
from jupyter_dist.views.cell.terminal import Terminal
from jupyter_dist.views.stages.start_progress import StartProgressView, ready_text
from jupyter_dist.views.stages.start_table import start_line, table_html, table_lines

A, B, C = (
    HostProgress("nodeA", StartStage.READY, 8, 8, 0.2, True, 8, "", {"ssh": 0.4, "agent": 0.5}),
    HostProgress("nodeB", StartStage.ENGINES, 0, 8, 0.3, True, 3, "", {"ssh": 0.6}),
    HostProgress("node<C>", StartStage.SSH, 0, 0, 2.14, note="ssh connects"),
)
REFUSED = HostProgress(
    "nodeD", StartStage.LOST, 0, 8, 0.0, note="refused <22>", passed_s={"ssh": 1}
)


def of_hosts(*hosts):
    return StartProgress("r", "waiting for node<C> (ssh connects)", 8, 24, hosts)


def progress(ready, stage="engines"):
    return StartProgress("r", stage, ready, 4)


@pytest.fixture
def view(notebook):
    return StartProgressView(display=notebook)


def test_a_notebook_shows_one_bar_that_ends_as_a_line(notebook, view):
    view.on_progress(progress(0, "agents <a>"))
    view.on_progress(progress(0))
    view.on_progress(progress(2))
    view.on_progress(progress(2))
    view.finish('"x": ready in 0.8 s')
    assert notebook.displays == 1
    assert len(notebook.bundles) == 4, "the same state twice is shown once"
    assert "agents &lt;a&gt;" in notebook.bundles[0]["text/html"]
    assert "width:50%" in notebook.bundles[2]["text/html"]
    assert notebook.text == '"x": ready in 0.8 s'
    assert "width" not in notebook.html


def test_a_failure_is_shown_even_before_the_first_progress(notebook, view):
    view.fail("host <b> is unreachable")
    assert "host &lt;b&gt; is unreachable" in notebook.bundles[0]["text/html"]


@pytest.mark.parametrize("is_tty", [True, False])
def test_a_tty_has_one_line_that_is_overwritten_and_a_file_only_the_last_one(is_tty):
    written = []
    view = StartProgressView(display=Terminal(written.append, is_tty=is_tty))
    view.on_progress(of_hosts(A, B, C))
    shown = ["2/3 hosts up · node<C>: ssh 2.1 s · 8/24 ranks ready"] * is_tty
    assert written == shown
    view.finish("ready")
    assert written == [*shown, *["\r\x1b[K"] * is_tty, "ready\n"]


PASSED_S = {"hosts": 0.42, "engines": 0.31}


@pytest.mark.parametrize(
    ("world_size", "ready_s", "more", "lines"),
    [
        (1, 0.84, [()], ["cluster x: 1 rank ready in 0.8 s"]),
        (
            4,
            0.84,
            [(), PASSED_S],
            ["cluster x: 4 ranks ready in 0.8 s (hosts 0.4 s, engines 0.3 s)"],
        ),
        (
            *(16, 12.0, [["numpy differs", "a: b"]]),
            ["cluster x: 16 ranks ready in 12.0 s", "note: numpy differs", "note: a: b"],
        ),
    ],
)
def test_the_last_line_says_what_was_started_and_what_to_know_stands_below(
    world_size, ready_s, more, lines
):
    assert ready_text("x", world_size, ready_s, *more).splitlines() == lines


def test_notes_are_lines_of_their_own_in_a_notebook_too(notebook, view):
    view.finish(ready_text("x", 4, 0.8, ["a < b"]))
    assert "in 0.8 s\nnote: a &lt; b</div>" in notebook.bundles[0]["text/html"]
    assert "white-space:pre-wrap" in notebook.bundles[0]["text/html"]


def test_while_nobody_knows_how_many_ranks_there_will_be_none_are_counted(notebook, view):
    view.on_progress(StartProgress("r", "waiting for a (ssh connects)", 0, 0))
    assert "width:0%" in notebook.bundles[0]["text/html"]
    assert notebook.bundles[0]["text/plain"] == f"{'░' * 20} waiting for a (ssh connects)"
    assert "ranks ready" not in notebook.bundles[0]["text/html"]


def test_a_notebook_shows_each_host_with_its_stage_and_its_times(notebook, view):
    view.on_progress(of_hosts(A, B, C))
    markup = notebook.bundles[0]["text/html"]
    assert markup.count("<tr") == 3
    for words in (
        "2/3 hosts up · node&lt;C&gt;: ssh 2.1 s · 8/24 ranks ready",
        "● nodeA",
        "ready, 8 ranks",
        "ssh 0.4 s, agent 0.5 s",
        "engines 3 of 8, 0.3 s",
        "⇢ node&lt;C&gt;",
        "ssh connects",
    ):
        assert words in markup
    assert "<style" not in markup
    assert "<script" not in markup


WAITS = HostProgress("nodeE", StartStage.WAITING, 0, 8, 9.0, True, 0)
JOINER = HostProgress("join-1", StartStage.WAITING, 0, 0, 3.0)
STAGE = "waiting for node<C> (ssh connects)"


@pytest.mark.parametrize(
    ("hosts", "line"),
    [
        ((A, B), "2/2 hosts up · nodeB: engines 3 of 8, 0.3 s"),
        ((A, B, C, REFUSED), "2/4 hosts up · nodeD: lost"),
        ((A,), "nodeA: ready, 8 ranks"),
        ((B,), "nodeB: engines 3 of 8, 0.3 s"),
        ((WAITS, B, A), "3/3 hosts up · nodeE: waiting for other hosts 9.0 s"),
        ((WAITS, A, C), "2/3 hosts up · node<C>: ssh 2.1 s"),
        ((A, JOINER), f"1/2 hosts up · {STAGE}"),
    ],
)
def test_the_host_that_is_least_far_is_named_or_how_hosts_are_to_come(hosts, line):
    assert start_line(of_hosts(*hosts)) == f"{line} · 8/24 ranks ready"


def test_of_many_hosts_only_counts_and_the_slowest_are_shown():
    ready = [HostProgress(f"r{n}", StartStage.READY, 8, 8, 1.0, True, 8) for n in range(20)]
    slow = [HostProgress(f"s{n}", StartStage.SSH, 0, 8, float(n)) for n in range(20)]
    lines = table_lines([*ready, *slow, REFUSED])
    assert lines[0] == "  41 hosts: 1 lost, 20 ssh, 20 ready; the slowest:"
    assert [line.split()[1] for line in lines[1:]] == ["nodeD", "s19", "s18", "s17", "s16"]
    assert table_html([*ready, *slow]).count("<tr") == 5
    assert table_lines(ready) == ["  20 hosts: 20 ready"]


def test_a_failed_start_keeps_the_table_of_who_was_how_far(notebook):
    written = []
    terminal = Terminal(written.append, is_tty=False)
    for display in (notebook, terminal):
        view = StartProgressView(display=display)
        view.on_progress(of_hosts(A, REFUSED))
        view.fail("not started: StartFailed")
    last = notebook.bundles[-1]
    assert "not started: StartFailed<table" in last["text/html"]
    assert "✗ nodeD" in last["text/html"]
    assert "refused &lt;22&gt; · ssh 1.0 s" in last["text/html"]
    lines = "".join(written).splitlines()
    assert lines == last["text/plain"].splitlines()
    assert lines[0] == "not started: StartFailed"
    assert lines[2] == "  ✗ nodeD  lost            refused <22> · ssh 1.0 s"


def test_the_times_of_a_start_are_handed_on():
    view = StartProgressView(display=Terminal(lambda _: None, is_tty=False))
    assert view.passed_s == {}
    view.on_progress(StartProgress("r", "starting ranks", 4, 4, (A,), {"hosts": 0.4}))
    assert view.passed_s == {"hosts": 0.4}


def test_hosts_whose_job_waits_in_a_queue_show_what_the_scheduler_says():
    words = "Slurm job 12: PENDING: Resources"
    hosts = tuple(
        HostProgress(f"slurm-{n}", StartStage.QUEUE, 0, 2, 3.0, note=words) for n in (1, 2)
    )
    stage = "waiting for 2 hosts of Slurm job 12 (PENDING: Resources)"
    progress = StartProgress("r", stage, 0, 0, hosts)
    assert start_line(progress) == f"0/2 hosts up · {stage}"
    assert table_lines(hosts)[0] == f"  ⋯ slurm-1  queue 3.0 s  {words}"
