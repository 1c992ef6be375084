from jupyter_dist.protocol.messages import StartProgress
from jupyter_dist.views.start_progress import StartProgressView, ready_text
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
