"""What goes wrong beside a real Jupyter Server holds none of its pages up."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.patience import Stopwatch
from tests.processes.leftovers import coordinator_of
from tests.processes.web import Browser, Lazy
from tests.suspending import resume, suspend

from .cells import WAITING, label_is

# --- what goes wrong ---


def test_pages_go_on_when_the_process_that_drives_is_killed(elsewhere, driver, browser, feed):
    name = elsewhere()
    driver.begin(WAITING)
    page = feed(name)
    page.wait_for("cell", lambda m: "begun" in m["html"])
    driver.close()
    mark = page.mark()
    page.wait_for("topology", since=mark)
    page.wait_for("clusters", lambda m: m["clusters"][0]["owner"] == "", since=mark)
    assert browser.ask(name, "interrupt")[-1]["text"] == "ranks 0-1 signalled"
    page.wait_for("cell", lambda m: not m["is_running"])


def test_a_cluster_that_dies_is_told_and_others_can_be_followed(start, browser, feed):
    dying = start("localhost:1", name="dying")
    start("localhost:1", name="other")
    page = feed("dying")
    page.wait_for("topology")
    coordinator_of(dying).kill()
    gone = page.wait_for("gone")
    assert (gone["cluster"], "coordinator" in gone["text"]) == ("dying", True)
    page.wait_for("clusters", lambda m: [row["name"] for row in m["clusters"]] == ["other"])
    page.follow("other")
    page.wait_for("topology", lambda m: m["cluster"] == "other")
    status, answer = browser.post(
        "jupyter-dist/clusters/dying/requests", {"id": "x", "kind": "explain"}
    )
    assert (status, "Running now: other" in answer["message"]) == (404, True)
    start("localhost:1")  # removes the directory of the one that was killed


@pytest.mark.slow
def test_a_silent_coordinator_is_told_as_such_and_holds_nobody_up(start, browser, feed):
    silent, ordered, _ = (
        start("localhost:1", name=name) for name in ("silent", "ordered", "other")
    )
    page = feed("silent")
    for each in (page, feed("ordered")):
        each.wait_for("topology")
    coordinators = coordinator_of(silent), coordinator_of(ordered)
    for coordinator in coordinators:
        suspend(coordinator.pid)
    try:
        row = {}

        def note_of(message):
            row.update({one["name"]: one for one in message["clusters"]})
            return "not answer" in row["silent"]["note"]

        page.wait_for("clusters", note_of)
        assert (row["silent"]["state"], row["other"]["state"]) == ("silent", "ready")
        page.wait_for("topology", lambda m: "was before" in m["topology"]["note"])
        watch = Stopwatch()
        assert browser.row("other")["state"] == "ready"
        assert browser.ask("other", "explain")[-1]["ok"]
        # A silent one is given up after ten seconds.
        watch.assert_less(8, "the answers of another cluster")
        with ThreadPoolExecutor(1) as beside:
            stopping = beside.submit(browser.ask, "ordered", "stop")
            assert not browser.ask("silent", "interrupt")[-1]["ok"]
        stopped = stopping.result()[-1]
        assert (stopped["ok"], "still runs" in stopped["text"]) == (False, True), stopped
        assert "ordered" in browser.clusters()
        # By now our own connection has been given up; a new one gets no answer either.
        path, request = "jupyter-dist/clusters/silent/requests", {"id": "y", "kind": "explain"}
        code, answer = browser.post(path, request)
        assert (code, "silent" in answer["message"]) == (503, True), answer
    finally:
        for coordinator in coordinators:
            resume(coordinator.pid)
    mark = page.mark()

    def is_ready(message):
        states = {row["name"]: row["state"] for row in message["clusters"]}
        return (states["silent"], states["other"]) == ("ready", "ready")

    page.wait_for("clusters", is_ready, since=mark)
    page.wait_for("topology", lambda m: m["topology"]["note"] == "", since=mark)
    assert browser.ask("silent", "explain")[-1]["ok"]


@pytest.mark.slow
def test_a_page_that_reads_nothing_holds_nobody_up_and_gets_the_newest_later(
    elsewhere, driver, browser, feed
):
    name = elsewhere()
    lazy = Lazy(browser, name)
    page = feed(name)
    page.wait_for("topology")
    rounds = 10
    code = f"""import time
from IPython.display import HTML, display, clear_output
for k in range({rounds}):
    clear_output()
    display(HTML(f'<p>picture {{k}}</p>' + 'x' * 1_500_000))
    print('round', k)
    time.sleep(0.8)"""
    driver.begin(code, ranks=[0])
    ended = page.wait_for("cell", lambda m: not m["is_running"], within_s=60)
    assert f"picture {rounds - 1}" in ended["html"]
    assert browser.row(name)["state"] == "ready"
    assert len(page.of("cell")) >= 5
    seen = lazy.read_until(lambda m: m["kind"] == "cell" and not m["is_running"])
    told = [message for message in seen if message["kind"] == "cell"]
    assert len(told) < len(page.of("cell")), "it was spared what was no longer new"
    assert told[-1]["html"] == ended["html"]
    assert driver.hear() == "ok"


# --- who keeps a cluster alive, and what the server's own end does ---


@pytest.mark.slow
def test_a_page_that_follows_keeps_a_cluster_alive_and_a_list_does_not(elsewhere, driver, feed):
    name = elsewhere("localhost:1", keep_s=1.0)
    page = feed(name)
    page.wait_for("topology")
    driver.close()
    # Alone it would be gone after that second, and the three that anybody may be silent.
    until_s = time.monotonic() + 6
    page.wait_for("topology", lambda _: time.monotonic() > until_s, since=page.mark())
    assert page.of("gone") == []
    page.follow(None)
    page.wait_for("clusters", lambda m: m["clusters"] == [], since=page.mark(), within_s=20)


@pytest.mark.slow
def test_a_server_behind_a_hub_ends_quickly_and_leaves_its_clusters(place, start, serve, feed):
    server = serve("/user/someone/")
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
