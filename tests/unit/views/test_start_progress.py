import pytest

from jupyter_dist.model.start_stage import HostProgress, StartStage
from jupyter_dist.protocol.messages import StartProgress
from jupyter_dist.views.start_progress import StartProgressView, ready_text
from jupyter_dist.views.start_table import start_line, table_html, table_lines
from jupyter_dist.views.terminal import Terminal


class Notebook:
    def __init__(self):
        self.bundles = []
        self.displays = 0

    def __call__(self, bundle, /, *, raw, display_id):
        self.displays += 1
        self.bundles.append(bundle)
        return self

    def update(self, bundle, *, raw):
        self.bundles.append(bundle)


A, B, C = (
    HostProgress("nodeA", StartStage.READY, 8, 8, 0.2, True, 8, "", {"ssh": 0.4, "agent": 0.5}),
    HostProgress("nodeB", StartStage.ENGINES, 0, 8, 0.3, True, 3, "", {"ssh": 0.6}),
    HostProgress("node<C>", StartStage.SSH, 0, 0, 2.14, note="ssh connects"),
)
REFUSED = HostProgress(
    "nodeD", StartStage.LOST, 0, 8, 0.0, note="refused <22>", passed_s={"ssh": 1}
)


def of_hosts(*hosts, stage="waiting for node<C> (ssh connects)"):
    return StartProgress("r", stage, 8, 24, hosts)


def progress(ready, stage="engines"):
    return StartProgress("r", stage, ready, 4)


def test_a_notebook_shows_one_bar_that_ends_as_a_line():
    notebook = Notebook()
    view = StartProgressView(display=notebook)
    view.on_progress(progress(0, "agents <a>"))
    view.on_progress(progress(2))
    view.on_progress(progress(2))
    view.finish('cluster "x": 4 ranks ready in 0.8 s')
    assert notebook.displays == 1
    assert len(notebook.bundles) == 3
    assert "agents &lt;a&gt;" in notebook.bundles[0]["text/html"]
    assert "width:50%" in notebook.bundles[1]["text/html"]
    assert notebook.bundles[2]["text/plain"] == 'cluster "x": 4 ranks ready in 0.8 s'
    assert "width" not in notebook.bundles[2]["text/html"]


def test_a_failure_is_shown_even_before_the_first_progress():
    notebook = Notebook()
    StartProgressView(display=notebook).fail("host <b> is unreachable")
    assert "host &lt;b&gt; is unreachable" in notebook.bundles[0]["text/html"]


def test_a_tty_has_one_line_that_is_overwritten():
    written = []
    view = StartProgressView(display=Terminal(written.append, is_tty=True))
    view.on_progress(progress(1))
    view.on_progress(progress(4))
    view.finish("ready")
    text = "".join(written)
    assert "1/4 ranks ready · engines" in text
    assert text.endswith("\r\x1b[Kready\n")
    assert text.count("\n") == 1


def test_without_a_tty_only_the_last_line_is_written():
    written = []
    view = StartProgressView(display=Terminal(written.append, is_tty=False))
    view.on_progress(progress(1))
    view.finish("ready")
    assert written == ["ready\n"]


def test_the_last_line_says_what_was_started_and_how_long_it_took():
    assert ready_text("x", 4, 0.84, ()) == "cluster x: 4 ranks ready in 0.8 s"
    assert ready_text("x", 1, 0.84, ()) == "cluster x: 1 rank ready in 0.8 s"


def test_the_last_line_has_the_times_of_the_stages():
    passed_s = {"hosts": 0.42, "engines": 0.31, "communicator": 0.08}
    text = ready_text("x", 4, 0.84, ["a note"], passed_s)
    assert text.splitlines() == [
        "cluster x: 4 ranks ready in 0.8 s (hosts 0.4 s, engines 0.3 s, communicator 0.1 s)",
        "note: a note",
    ]


def test_what_to_know_about_the_hosts_stands_below_it():
    text = ready_text("x", 16, 12.0, ["numpy differs: 2 on a, 1 on b", "a: no such directory"])
    assert text.splitlines() == [
        "cluster x: 16 ranks ready in 12.0 s",
        "note: numpy differs: 2 on a, 1 on b",
        "note: a: no such directory",
    ]


def test_notes_are_lines_of_their_own_in_a_notebook_too():
    notebook = Notebook()
    StartProgressView(display=notebook).finish(ready_text("x", 4, 0.8, ["a < b"]))
    assert "in 0.8 s\nnote: a &lt; b</div>" in notebook.bundles[0]["text/html"]
    assert "white-space:pre-wrap" in notebook.bundles[0]["text/html"]


def test_while_nobody_knows_how_many_ranks_there_will_be_none_are_counted():
    notebook = Notebook()
    view = StartProgressView(display=notebook)
    view.on_progress(StartProgress("r", "waiting for a (ssh connects)", 0, 0))
    assert "width:0%" in notebook.bundles[0]["text/html"]
    assert notebook.bundles[0]["text/plain"] == f"{'░' * 20} waiting for a (ssh connects)"
    assert "ranks ready" not in notebook.bundles[0]["text/html"]


def test_a_new_stage_is_shown_though_no_rank_has_become_ready():
    notebook = Notebook()
    view = StartProgressView(display=notebook)
    for stage in ("waiting for a", "waiting for b", "waiting for b"):
        view.on_progress(progress(0, stage))
    assert len(notebook.bundles) == 2


def test_a_notebook_shows_each_host_with_its_stage_and_its_times():
    notebook = Notebook()
    view = StartProgressView(display=notebook)
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


def test_a_terminal_has_it_in_one_line():
    written = []
    view = StartProgressView(display=Terminal(written.append, is_tty=True))
    view.on_progress(of_hosts(A, B, C))
    assert written == ["2/3 hosts up · node<C>: ssh 2.1 s · 8/24 ranks ready"]


@pytest.mark.parametrize(
    ("hosts", "named"),
    [
        ((A, B), "nodeB: engines 3 of 8, 0.3 s"),
        ((A, B, C, REFUSED), "nodeD: lost"),
        ((A,), "nodeA: ready, 8 ranks"),
    ],
)
def test_the_host_that_is_least_far_is_named(hosts, named):
    assert named in start_line(of_hosts(*hosts))


def test_hosts_that_are_up_are_farther_than_those_that_are_not():
    up = HostProgress("nodeE", StartStage.WAITING, 0, 8, 9.0, True, 0)
    assert "nodeB: engines" not in start_line(of_hosts(up, B, A))
    assert "node<C>: ssh" in start_line(of_hosts(up, A, C))


def test_of_one_host_nobody_counts_hosts():
    assert "hosts up" not in start_line(of_hosts(B))


def test_while_agents_are_to_come_by_themselves_it_says_how():
    joiner = HostProgress("join-1", StartStage.WAITING, 0, 0, 3.0)
    how = "waiting for an agent to join: jupyter dist agent --join /x"
    assert start_line(of_hosts(A, joiner, stage=how)) == f"1/2 hosts up · {how} · 8/24 ranks ready"


def test_a_host_that_is_up_waits_for_the_others():
    waiting = HostProgress("nodeA", StartStage.WAITING, 0, 8, 1.0, True, 0, "", {"agent": 0.2})
    assert table_lines([waiting]) == ["  ◌ nodeA  waiting for other hosts 1.0 s  agent 0.2 s"]


def test_of_many_hosts_only_counts_and_the_slowest_are_shown():
    ready = [HostProgress(f"r{n}", StartStage.READY, 8, 8, 1.0, True, 8) for n in range(20)]
    slow = [HostProgress(f"s{n}", StartStage.SSH, 0, 8, float(n)) for n in range(20)]
    lines = table_lines([*ready, *slow, REFUSED])
    assert lines[0] == "  41 hosts: 1 lost, 20 ssh, 20 ready; the slowest:"
    assert [line.split()[1] for line in lines[1:]] == ["nodeD", "s19", "s18", "s17", "s16"]
    assert table_html([*ready, *slow]).count("<tr") == 5
    assert table_lines(ready) == ["  20 hosts: 20 ready"]


def test_a_failed_start_keeps_the_table_of_who_was_how_far():
    notebook, written = Notebook(), []
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
