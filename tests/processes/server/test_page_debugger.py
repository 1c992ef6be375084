"""Pages that debug ranks over Jupyter Server, as JupyterLab's debugger does."""

import threading

import pytest
from tornado.httpclient import HTTPClientError

from jupyter_dist import Cluster
from jupyter_dist.launch.files.connection_file import connection_path
from jupyter_dist.model.ranks.typed_cells import code_of_typed
from tests.processes.dap_client import DapConversation
from tests.processes.leftovers import wait_until
from tests.processes.web import Browser, PageSocket

TYPED = """%%spmd --show 1
def add(here):
    total = here + 1
    return total
mine = add(rank)
# what the others wait for
both = comm.all_reduce(mine)
print(both)"""
HELD = "rank 1, which is in the debugger"
CELL = code_of_typed(TYPED)


class DapPage(DapConversation):
    """A page that debugs a rank."""

    def __init__(self, browser, cluster, rank):
        super().__init__()
        path = f"clusters/{cluster}/ranks/{rank}/debugger"
        self._has_ended = threading.Event()
        self._socket = PageSocket(browser, path, self.take)

    def take(self, content):
        super().take(content)
        if content is None:
            self._has_ended.set()

    def send(self, text):
        self._socket.send(text)

    def vanish(self):
        """Close the page without a word."""
        self._socket.close()

    def close(self):
        self.vanish()
        assert self._has_ended.wait(30)
        self._socket.end()


@pytest.fixture
def connect(browser):
    pages = []

    def one(cluster, rank, by=browser):
        pages.append(DapPage(by, cluster, rank))
        return pages[-1]

    yield one
    for page in pages:
        page.close()


def test_a_page_sets_breakpoints_in_a_cell_before_it_runs_and_steps_through_it(start, connect):
    cluster = start("localhost:2", name="stepped")
    page = connect("stepped", 1)
    assert page.attach()["success"]
    file = page.ask("dumpCell", code=TYPED)["sourcePath"]
    for line in (3, 6):
        told = page.ask("setBreakpoints", source={"path": file}, breakpoints=[{"line": line}])
        assert told["breakpoints"] == [{"verified": True, "line": line}]
    for number in (3, 4):  # line 6 is a comment: the rank stops where code is, before it
        running = cluster.run_in_background(CELL, label=number)
        thread, (top, *_) = page.stopped()
        assert (top["line"], top["source"]["name"]) == (5, f"In[{number}]")
        path = top["source"]["path"]
        assert path.endswith(f"In_{number}_{file.rpartition('_')[2]}")
        content = page.ask("source", source={"path": path}, sourceReference=0)["content"]
        assert content.splitlines()[1:] == TYPED.splitlines()[1:]
        wait_until(lambda: HELD in cluster.explain(), 30, HELD)
        page.ask("stepIn", threadId=thread)
        _, (within, *_) = page.stopped()
        assert (within["name"], within["line"]) == ("add", 3)
        page.ask("continue", threadId=thread)
        assert [each.stdout for each in running.wait(30)] == ["3\n", "3\n"]
    page.ask("setBreakpoints", source={"path": file}, breakpoints=[])
    assert cluster.run(CELL).ok


@pytest.mark.slow
def test_a_rank_goes_on_when_its_page_or_the_server_has_gone(start, serve, connect):
    cluster = start("localhost:2", name="left")
    server = serve()
    for leave in (DapPage.vanish, lambda _: server.end()):
        page = connect("left", 1, Browser(server))
        assert page.attach()["success"]
        running = cluster.run_in_background("breakpoint()\nprint('on')", [1])
        page.stopped()
        leave(page)
        assert running.wait(30)[0].stdout == "on\n"


@pytest.mark.slow
def test_strangers_and_other_clusters_are_refused_with_what_can_be_done(start, server, connect):
    start("localhost:1", name="mine")
    for stranger in (Browser(server, token=None), Browser(server, origin="http://evil.example")):
        with pytest.raises(HTTPClientError, match="403"):
            DapPage(stranger, "mine", 0)
    for cluster, rank, words in (("none", 0, "mine"), ("mine", 7, "rank 7"), ("..%2Fx", 0, "../x")):
        page = connect(cluster, rank)
        assert words in page.attach()["message"]
        page.hear("end")
    page = connect("mine", 0)
    page.say("evaluate", expression="1")
    assert "attach" in page.hear("evaluate")["message"]
    connection_path("mine").chmod(0o644)
    assert not connect("mine", 0).attach()["success"], "others could read its keys"
    connection_path("mine").chmod(0o600)
    first = connect("mine", 0)
    assert first.attach()["success"]
    assert "has a debugger already" in connect("mine", 0).attach()["message"]
    first.leave()
    assert Cluster.visit("mine").run("rank").ok
