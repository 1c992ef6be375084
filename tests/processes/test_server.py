"""Pages of a real Jupyter Server see clusters, and have them do things, beside any notebook."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import pytest
from tornado.httpclient import HTTPClientError

from jupyter_dist import Cluster
from jupyter_dist.launch.connection_file import connection_path

from .conftest import ClusterFactory
from .driver import Driver
from .leftovers import Home, coordinator_of
from .web import Browser, Feed, JupyterServer, Lazy

pytestmark = pytest.mark.timeout(120)


class Adopting(ClusterFactory):
    """Ends also clusters that somebody else has started."""

    def __init__(self, home):
        super().__init__(home)
        self._adopted = []

    def adopt(self, name):
        """Stop the cluster with this name in the end."""
        self._adopted.append(name)

    def close(self):
        """Stop all."""
        super().close()
        for name in set(self._adopted) & set(Cluster.running()):
            cluster = Cluster.visit(name)
            self._home.remember(cluster)
            cluster.stop()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Directories of this module's own, in which nothing may be left."""
    root = tmp_path_factory.mktemp("web")
    home = Home(root)
    with pytest.MonkeyPatch.context() as monkeypatch:
        home.enter(monkeypatch)
        yield home
        home.assert_nothing_left()


@pytest.fixture(scope="module")
def server(place, tmp_path_factory):
    """The Jupyter Server of this module; one takes seconds to start."""
    server = JupyterServer(tmp_path_factory.mktemp("server"))
    yield server
    server.end()


@pytest.fixture
def serve(place, tmp_path):
    """Start Jupyter Servers of a test's own."""
    servers = []

    def start(base_url="/"):
        servers.append(JupyterServer(tmp_path / f"server-{len(servers)}", base_url))
        return servers[-1]

    yield start
    for server in servers:
        server.end()


@pytest.fixture
def start(place):
    """Start clusters that end with the test."""
    factory = Adopting(place)
    yield factory
    factory.close()
    assert Cluster.running() == []


@pytest.fixture
def browser(server):
    """Somebody who has logged in."""
    return Browser(server)


@pytest.fixture
def feed(browser):
    """Open pages; all are closed in the end."""
    feeds = []

    def open_feed(follow=None, rank=None, by=browser):
        feeds.append(Feed(by, follow, rank))
        return feeds[-1]

    yield open_feed
    for each in feeds:
        each.close()


@pytest.fixture
def driver(place):
    """Another process that drives clusters, as a notebook does."""
    driver = Driver()
    yield driver
    driver.close()


def test_clusters_are_listed_with_what_they_do(start, browser):
    assert browser.clusters() == {}
    start("localhost:2", name="first")
    row = browser.clusters()["first"]
    assert (row["state"], row["world_size"], row["busy"], row["lost"]) == ("ready", 2, 0, 0)
    assert row["hosts"] == ["localhost"]
    assert row["driver"].startswith("program ")


def test_a_page_is_told_the_list_at_once_and_what_it_follows(start, feed):
    start("localhost:2", name="first")
    page = feed()
    assert [row["name"] for row in page.wait_for("clusters")["clusters"]] == ["first"]
    page.follow("first", 1)
    seen = page.wait_for("topology")["topology"]
    assert [host["name"] for host in seen["hosts"]] == ["localhost"]


@pytest.fixture
def hold(tmp_path):
    """Code of a cell that runs until `hold.release()`."""

    class Hold:
        path = tmp_path / "go on"

        def __call__(self, first, then="'done'"):
            wait = f"while not os.path.exists({str(self.path)!r}): time.sleep(0.05)"
            return f"import os, time\n{first}\n{wait}\n{then}"

        def release(self):
            self.path.touch()

    return Hold()


@pytest.fixture
def elsewhere(start, driver):
    """A cluster that another process drives; its name. It ends with the test."""

    def begin(hosts="localhost:2", name="kept", **options):
        said = driver.do(f"cluster = Cluster.start({hosts!r}, name={name!r}, **{options!r})")
        assert said == "ok", said
        start.adopt(name)
        return name

    return begin


def label_is(label, **more):
    """Fits a message about this cell, with these other values."""
    return lambda m: m["label"] == label and all(m[key] == more[key] for key in more)


# --- what cells say ---


def test_a_page_sees_a_running_cell_of_another_process_and_its_end(elsewhere, driver, hold, feed):
    name = elsewhere()
    driver.begin(hold("print('rank', rank, 'here')", "rank * 10"), label=7)
    page = feed(name, rank=1)
    seen = page.wait_for("cell", lambda m: "rank 1 here" in m["html"])
    assert (seen["cluster"], seen["label"], seen["is_running"]) == (name, "In[7]", True)
    assert "2 running" in seen["text"]
    tail = page.wait_for("tail", lambda m: "here" in m["text"])
    assert (tail["cluster"], tail["rank"], tail["text"]) == (name, 1, "rank 1 here")
    busy = page.wait_for("clusters", lambda m: m["clusters"][0]["busy"] == 2)
    assert busy["clusters"][0]["cell"] == "In[7]"
    hold.release()
    ended = page.wait_for("cell", label_is("In[7]", is_running=False))
    assert "Out[0-1]: [0] 0  [1] 10" in ended["text"]
    assert driver.hear() == "ok"


def test_a_page_that_comes_in_the_middle_of_a_cell_gets_all_that_is_kept(
    elsewhere, driver, hold, feed
):
    name = elsewhere()
    driver.begin(hold("for k in range(30): print('line', k)"), label=1)
    first = feed(name)
    first.wait_for("cell", lambda m: "line 29" in m["html"])
    first.close()
    second = feed(name)
    seen = second.wait_for("cell", lambda m: "line 29" in m["html"])
    assert "line 0" in seen["html"]
    third = feed(name, rank=0)
    assert "line 0" in third.wait_for("cell")["html"], "the first picture is whole"
    assert third.wait_for("tail")["text"].splitlines() == [f"line {k}" for k in range(30)]
    hold.release()
    assert driver.hear() == "ok"


def test_a_cell_that_nobody_saw_is_shown_as_the_last_one(start, feed):
    cluster = start("localhost:2", name="quick")
    cluster.run("print('said before')", label=1)
    page = feed("quick", rank=0)
    assert "said before" in page.wait_for("cell", label_is("In[1]", is_running=False))["html"]
    cluster.run("print('said later')", label=2)
    assert "said later" in page.wait_for("cell", label_is("In[2]", is_running=False))["html"]
    page.wait_for("tail", lambda m: m["text"] == "said later")


def test_the_tail_of_a_rank_that_raised_ends_with_its_traceback(start, feed):
    cluster = start("localhost:2", name="raising")
    cluster.run("print('before')\nif rank == 1: 1 / 0", label=1)
    page = feed("raising", rank=1)
    lines = page.wait_for("tail", lambda m: "before" in m["text"])["text"].splitlines()
    assert lines[0] == "before"
    assert lines[-1] == "ZeroDivisionError: division by zero"
    page.follow("raising", 0)
    assert page.wait_for("tail", lambda m: m["rank"] == 0)["text"] == "before"


# --- what pages have clusters do ---


WAITING = """import time
print('begun')
try: time.sleep(60)
except KeyboardInterrupt: print(time.time())"""


def test_a_button_interrupts_what_another_process_runs(elsewhere, driver, browser, feed):
    name = elsewhere()
    feed(name).wait_for("topology")
    taken_s = []
    for _ in range(10):
        driver.tell(f"result = cluster.run({WAITING!r}, watcher=Begun())")
        assert driver.hear() == "begun"
        pressed_s = time.time()
        [*_, reply] = browser.ask(name, "interrupt")
        assert reply["ok"], reply
        assert driver.hear() == "ok"
        signalled_s = float(driver.do("print(result[0].stdout.split()[1])"))
        assert driver.hear() == "ok"
        taken_s.append(signalled_s - pressed_s)
    print(f"button to signal, by REST: median {median(taken_s):.3f} s of {sorted(taken_s)}")
    assert median(taken_s) < 2.0  # of which 0.3 s is what a quiet machine may take


def test_a_lost_rank_is_replaced_and_the_page_is_told_how_it_goes(start, browser, feed):
    cluster = start("localhost:2", name="healed")
    page = feed("healed")
    os.kill(cluster.topology().engines[1].pid, signal.SIGKILL)
    page.wait_for("clusters", lambda m: m["clusters"][0]["lost"] == 1)
    replies = browser.ask("healed", "heal", "heal-1")
    assert [reply["is_final"] for reply in replies] == [False] * (len(replies) - 1) + [True]
    assert replies[-1]["ok"], replies
    told = page.wait_for("reply", lambda m: m["is_final"])
    assert (told["id"], told["cluster"], told["text"]) == ("heal-1", "healed", replies[-1]["text"])
    page.wait_for("clusters", lambda m: m["clusters"][0]["lost"] == 0, since=page.mark())
    assert cluster.run("rank").ok


def test_a_cluster_is_stopped_and_its_page_told(start, browser, feed):
    start("localhost:1", name="ended")
    page = feed("ended")
    page.wait_for("topology")
    assert browser.ask("ended", "stop")[-1]["ok"]
    assert "'ended' is gone" in page.wait_for("gone")["text"]
    page.wait_for("reply", lambda m: m["is_final"])
    assert browser.clusters() == {}
    page.wait_for("clusters", lambda m: m["clusters"] == [])


def test_two_pages_do_not_wait_for_each_other(start, browser, feed):
    cluster = start("localhost:2", name="slow")
    pages = [feed("slow"), feed("slow")]
    for page in pages:
        page.wait_for("topology")
    os.kill(cluster.topology().engines[0].pid, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(1) as other:
            slow = other.submit(browser.ask, "slow", "stacks", "stacks-1")
            pages[0].wait_for("reply", lambda m: m["id"] == "stacks-1")
            begin_s = time.monotonic()
            assert browser.ask("slow", "explain")[-1]["ok"]
            assert browser.clusters()["slow"]["state"] == "ready"
            assert time.monotonic() - begin_s < 1.5, "stacks of a stopped rank take two seconds"
            assert not slow.done()
            assert slow.result()[-1]["ok"]
    finally:
        os.kill(cluster.topology().engines[0].pid, signal.SIGCONT)
    pages[0].close()
    mark = pages[1].mark()
    pages[1].wait_for("topology", since=mark)


# --- starts ---


def test_a_page_starts_a_cluster_that_lives_by_itself(start, browser, feed, server):
    page = feed()
    request = {"id": "s1", "count": 2, "name": "mine"}
    status, answer = browser.post("jupyter-dist/clusters", request)
    start.adopt("mine")
    assert (status, answer["cluster"]["name"], answer["cluster"]["state"]) == (201, "mine", "ready")
    said = page.wait_for("start", lambda m: m["is_over"])
    assert (said["id"], said["ok"], said["cluster"], said["ready_ranks"]) == ("s1", True, "mine", 2)
    assert any(m["world_size"] == 2 and not m["is_over"] for m in page.of("start"))
    assert browser.clusters()["mine"]["driver"] == "", "the server has left that place"
    cluster = start.attach("mine")
    coordinator = coordinator_of(cluster)
    assert os.getsid(coordinator.pid) == coordinator.pid, "in a session of its own"
    assert cluster.run("import os; os.getcwd()")[0].value_repr == repr(str(server.root))


def test_starts_without_a_name_do_not_collide(start, browser, server):
    (server.root / "clusters").mkdir(exist_ok=True)
    spec = server.root / "clusters" / "one.toml"
    spec.write_text('[[hosts]]\nname = "localhost:1"\n')
    requests = [{"id": "a", "count": 1}, {"id": "b", "count": 1}, {"id": "c", "spec": str(spec)}]
    with ThreadPoolExecutor(3) as threads:
        answers = list(
            threads.map(lambda request: browser.post("jupyter-dist/clusters", request), requests)
        )
    names = {answer["cluster"]["name"] for _, answer in answers}
    for name in names:
        start.adopt(name)
    assert len(names) == 3, answers


def test_specifications_are_listed_and_started(start, browser, server):
    folder = server.root / "clusters"
    folder.mkdir(exist_ok=True)
    (folder / "pair.toml").write_text('name = "pair"\n[[hosts]]\nname = "localhost:2"\n')
    (folder / "wrong.toml").write_text('nome = "x"\n')
    (server.root / "pyproject.toml").write_text('[project]\nname = "else"\n')
    own = server.config / "jupyter_dist"
    own.mkdir(exist_ok=True)
    (own / "far.toml").write_text('[[hosts]]\nname = "node[01-02]:8"\n')
    status, answer = browser.get("jupyter-dist/specs")
    assert status == 200
    rows = {Path(row["path"]).name: row for row in answer["specs"]}
    assert rows["pair.toml"]["name"] == "pair"
    assert rows["pair.toml"]["hosts"] == "localhost:2"
    assert (rows["far.toml"]["name"], rows["far.toml"]["hosts"]) == ("far", "node01:8, node02:8")
    assert "'nome'" in rows["wrong.toml"]["problem"]
    assert "pyproject.toml" not in rows
    assert answer["folders"] == [str(server.root), str(folder), str(own)]
    request = {"id": "s2", "spec": rows["pair.toml"]["path"]}
    status, answer = browser.post("jupyter-dist/clusters", request)
    start.adopt("pair")
    assert (status, answer["cluster"]["world_size"]) == (201, 2)


def test_a_start_that_fails_says_everything(browser, feed):
    page = feed()
    request = {"id": "s3", "hosts": "no-such-host.invalid:2", "name": "never"}
    status, answer = browser.post("jupyter-dist/clusters", request)
    assert status == 500
    assert "no-such-host.invalid" in answer["message"]
    said = page.wait_for("start", lambda m: m["is_over"])
    assert (said["ok"], said["text"]) == (False, answer["message"])
    assert browser.clusters() == {}


def test_a_start_that_waits_can_be_seen_and_stopped(start, browser, feed):
    page = feed()
    request = {"id": "s4", "hosts": "join:1", "name": "waiting"}
    with ThreadPoolExecutor(1) as other:
        starting = other.submit(browser.post, "jupyter-dist/clusters", request)
        page.wait_for("clusters", lambda m: [row["state"] for row in m["clusters"]] == ["starting"])
        start.adopt("waiting")
        page.follow("waiting")
        assert page.wait_for("topology")["topology"]["state"] == "starting"
        later = feed()
        assert later.wait_for("start")["id"] == "s4", "a page that comes later is told as well"
        assert browser.ask("waiting", "stop")[-1]["ok"]
        code, answer = starting.result()
        assert (code, "'waiting' did not start" in answer["message"]) == (500, True), answer


# --- what is not accepted ---


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("clusters", b"{", 400, "Accepted: an id"),
        ("clusters", {"count": 1}, 400, "missing required field `id`"),
        ("clusters", {"id": "x", "count": 0}, 400, "count"),
        ("clusters", {"id": "x", "count": 1, "hosts": "a"}, 400, "hosts and count"),
        ("clusters", {"id": "x", "hosts": "a:b:c"}, 400, "'a:b:c'"),
        ("clusters", {"id": "x", "host": "a"}, 400, "unknown field `host`"),
        ("clusters", {"id": "x", "count": 1, "name": "../up"}, 400, "'../up'"),
        ("clusters", {"id": "x", "spec": "/etc/passwd"}, 400, "'/etc/passwd' is not accepted"),
        ("clusters", {"id": "x", "spec": "../x.toml"}, 400, "'../x.toml' is not accepted"),
        ("clusters", {"id": "x", "spec": "none.toml"}, 400, "does not exist"),
        ("clusters/none/requests", {"id": "x", "kind": "stop"}, 404, "no cluster named 'none'"),
        ("clusters/..%2Fx/requests", {"id": "x", "kind": "stop"}, 404, "'../x'"),
        ("clusters/a/b/requests", {"id": "x", "kind": "stop"}, 404, "'a/b'"),
        ("clusters/none/requests", {"id": "x", "kind": "burn"}, 400, "interrupt, stacks"),
        ("clusters/none/requests", {"id": 3, "kind": "stop"}, 400, "Expected `str`"),
        ("clusters/none/requests", {"id": "x", "kind": "heal", "ranks": "all"}, 400, "ranks"),
        ("clusters/none/requests", b"x" * 70_000, 400, "70,000 bytes"),
    ],
)
def test_what_is_not_accepted_says_what_is(browser, path, body, status, words):
    code, answer = browser.post(f"jupyter-dist/{path}", body)
    assert (code, words in answer["message"]) == (status, True), answer


def test_a_feed_says_what_it_does_not_understand_and_goes_on(start, feed):
    start("localhost:1", name="here")
    page = feed("nowhere")
    assert "no cluster named 'nowhere'" in page.wait_for("gone")["text"]
    page.send('{"kind": "folow"}')
    assert '"follow"' in page.wait_for("refused")["text"]
    page.follow("here")
    page.wait_for("topology")


def test_nobody_gets_in_without_logging_in_and_no_other_site_can_write(start, server, browser):
    start("localhost:1", name="safe")
    stranger = Browser(server, token=None)
    for path in ("clusters", "specs"):
        assert stranger.get(f"jupyter-dist/{path}")[0] == 403
    stop = {"id": "x", "kind": "stop"}
    assert stranger.post("jupyter-dist/clusters/safe/requests", stop)[0] == 403
    assert stranger.post("jupyter-dist/clusters", {"id": "x", "count": 1})[0] == 403
    with pytest.raises(HTTPClientError, match="403"):
        Feed(stranger)
    path = "jupyter-dist/clusters/safe/requests"
    code, answer = browser.post(path, stop, with_xsrf=False)
    assert (code, "_xsrf" in answer["message"]) == (403, True)
    elsewhere = Browser(server, origin="http://evil.example")
    with pytest.raises(HTTPClientError, match="403"):
        Feed(elsewhere)
    assert browser.clusters().keys() == {"safe"}


def test_a_connection_file_that_others_can_read_is_not_ours(start, browser):
    start("localhost:1", name="open")
    assert browser.clusters().keys() == {"open"}
    connection_path("open").chmod(0o644)
    assert browser.clusters() == {}
    path, request = "jupyter-dist/clusters/open/requests", {"id": "x", "kind": "stop"}
    assert browser.post(path, request)[0] == 404


# --- what goes wrong ---


def test_pages_go_on_when_the_process_that_drives_is_killed(elsewhere, driver, browser, feed):
    name = elsewhere()
    driver.begin(WAITING)
    page = feed(name)
    page.wait_for("cell", lambda m: "begun" in m["html"])
    driver.close()
    mark = page.mark()
    page.wait_for("topology", since=mark)
    page.wait_for("clusters", lambda m: m["clusters"][0]["driver"] == "", since=mark)
    assert browser.ask(name, "interrupt")[-1]["text"] == "ranks 0-1 signalled"
    page.wait_for("cell", lambda m: not m["is_running"])


def test_a_cluster_that_dies_is_told_and_others_can_be_followed(start, browser, feed):
    dying = start("localhost:1", name="dying")
    start("localhost:1", name="other")
    page = feed("dying")
    page.wait_for("topology")
    coordinator_of(dying).kill()
    assert "its coordinator has ended" in page.wait_for("gone")["text"]
    page.wait_for("clusters", lambda m: [row["name"] for row in m["clusters"]] == ["other"])
    page.follow("other")
    page.wait_for("topology", lambda m: m["cluster"] == "other")
    status, answer = browser.post(
        "jupyter-dist/clusters/dying/requests", {"id": "x", "kind": "explain"}
    )
    assert (status, "Running now: other" in answer["message"]) == (404, True)
    start("localhost:1")  # removes the directory of the one that was killed


def test_a_silent_coordinator_is_told_as_such_and_holds_nobody_up(start, browser, feed):
    silent = start("localhost:1", name="silent")
    start("localhost:1", name="other")
    page = feed("silent")
    page.wait_for("topology")
    coordinator = coordinator_of(silent)
    coordinator.suspend()
    try:
        row = {}

        def note_of(message):
            row.update({one["name"]: one for one in message["clusters"]})
            return "does not answer for" in row["silent"]["note"]

        page.wait_for("clusters", note_of)
        assert (row["silent"]["state"], row["other"]["state"]) == ("silent", "ready")
        page.wait_for("topology", lambda m: "this is how it was before" in m["topology"]["note"])
        begin_s = time.monotonic()
        assert browser.clusters()["other"]["state"] == "ready"
        assert browser.ask("other", "explain")[-1]["ok"]
        assert time.monotonic() - begin_s < 2.0
        assert not browser.ask("silent", "interrupt")[-1]["ok"]
        # By now our own connection has been given up; a new one gets no answer either.
        path, request = "jupyter-dist/clusters/silent/requests", {"id": "y", "kind": "explain"}
        code, answer = browser.post(path, request)
        assert (code, "silent" in answer["message"]) == (503, True), answer
    finally:
        coordinator.resume()
    mark = page.mark()
    page.wait_for(
        "clusters", lambda m: all(r["state"] == "ready" for r in m["clusters"]), since=mark
    )
    page.wait_for("topology", lambda m: m["topology"]["note"] == "", since=mark)
    assert browser.ask("silent", "explain")[-1]["ok"]


def test_a_page_that_reads_nothing_holds_nobody_up_and_gets_the_newest_later(
    elsewhere, driver, browser, feed
):
    name = elsewhere()
    lazy = Lazy(browser, name)
    page = feed(name)
    page.wait_for("topology")
    rounds = 12
    code = f"""import time
from IPython.display import HTML, display, clear_output
for k in range({rounds}):
    clear_output()
    display(HTML(f'<p>picture {{k}}</p>' + 'x' * 2_000_000))
    print('round', k)
    time.sleep(1)"""
    driver.begin(code, ranks=[0])
    ended = page.wait_for("cell", lambda m: not m["is_running"], within_s=60)
    assert f"picture {rounds - 1}" in ended["html"]
    assert browser.clusters()[name]["state"] == "ready"
    assert len(page.of("cell")) >= 5
    seen = lazy.read_until(lambda m: m["kind"] == "cell" and not m["is_running"])
    told = [message for message in seen if message["kind"] == "cell"]
    assert len(told) < len(page.of("cell")), "it was spared what was no longer new"
    assert told[-1]["html"] == ended["html"]
    assert driver.hear() == "ok"


# --- who keeps a cluster alive, and what the server's own end does ---


def test_a_page_that_follows_keeps_a_cluster_alive_and_a_list_does_not(elsewhere, driver, feed):
    name = elsewhere("localhost:1", keep_s=1.0)
    page = feed(name)
    page.wait_for("topology")
    driver.close()
    # Alone it would be gone after that second, and the three that anybody may be silent.
    until_s = time.monotonic() + 8
    page.wait_for("topology", lambda _: time.monotonic() > until_s, since=page.mark())
    assert page.of("gone") == []
    page.follow(None)
    page.wait_for("clusters", lambda m: m["clusters"] == [], since=page.mark(), within_s=20)


def test_a_server_behind_a_hub_ends_quickly_and_leaves_its_clusters(place, start, serve, feed):
    server = serve("/user/somebody/")
    browser = Browser(server)
    page = feed(by=browser)
    code, _ = browser.post("jupyter-dist/clusters", {"id": "s", "count": 2, "name": "outlives"})
    assert code == 201
    start.adopt("outlives")
    cluster = start.attach("outlives")
    page.follow("outlives")
    page.wait_for("topology")
    assert [*browser.ask("outlives", "explain")][-1]["ok"]
    took_s = server.end()
    print(f"the server's end took {took_s:.2f} s")
    page.wait_for("closed")
    assert cluster.run("rank").ok, "nothing of it has ended with the server"
    server.restart()
    again = feed("outlives", by=Browser(server))
    assert "Out[0-1]" in again.wait_for("cell", label_is("In[1]", is_running=False))["text"]
