"""Pages of a real Jupyter Server have clusters do things, start them, and stop them."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import pytest

from tests.patience import Stopwatch
from tests.processes.leftovers import coordinator_of

from .cells import WAITING

# --- what pages have clusters do ---


@pytest.mark.slow
def test_a_button_interrupts_what_another_process_runs(elsewhere, driver, browser, feed):
    name = elsewhere()
    feed(name).wait_for("topology")
    taken_s, watch = [], Stopwatch()
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
    # Of which 0.3 s is what a quiet machine may take.
    watch.assert_less(2, "half of the signals", took_s=median(taken_s))


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


def test_two_pages_do_not_wait_for_each_other(elsewhere, driver, hold, browser, feed):
    name = elsewhere()
    driver.begin(hold("print('begun')"))
    pages = [feed(name), feed(name)]
    seen, _ = (page.wait_for("topology")["topology"] for page in pages)
    os.kill(seen["hosts"][0]["engines"][1]["pid"], signal.SIGKILL)
    pages[0].wait_for("clusters", lambda m: m["clusters"][0]["lost"] == 1)
    with ThreadPoolExecutor(1) as other:
        slow = other.submit(browser.ask, name, "heal", "heal-1")
        try:
            pages[0].wait_for("reply", lambda m: "In[" in m["text"])  # it waits for the cell
            assert browser.ask(name, "explain")[-1]["ok"]
            assert browser.row(name)["lost"] == 1
            assert not slow.done(), "the cell on rank 0 has not ended"
        finally:
            hold.release()
        assert slow.result()[-1]["ok"], slow.result()
    assert driver.hear() == "ok"
    pages[0].close()
    pages[1].wait_for("topology", since=pages[1].mark())


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
    assert browser.row("mine")["owner"] == "", "the server has left that place"
    cluster = start.attach("mine")
    coordinator = coordinator_of(cluster)
    assert os.getsid(coordinator.pid) == coordinator.pid, "in a session of its own"
    assert cluster.run("import os; os.getcwd()")[0].value_repr == repr(str(server.root))


@pytest.mark.slow
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
        assert (code, "'waiting'" in answer["message"]) == (500, True), answer
