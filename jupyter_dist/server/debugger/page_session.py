"""One page that debugs one rank: what it says and hears, on a thread beside the event loop."""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator

from jupyter_dist.cluster.cluster import Cluster
from jupyter_dist.cluster.debugging.client_stream import DapClient
from jupyter_dist.cluster.debugging.debugger_line import lines_of
from jupyter_dist.cluster.debugging.sessions import (
    JUST_NOW_S,
    LEAVING_S,
    Greeting,
    RankSession,
    Requests,
    greet,
    read_requests,
)
from jupyter_dist.errors import DistError, NoCluster
from jupyter_dist.model.ranks.source_files import ANY_NUMBER, write_file_name
from jupyter_dist.model.ranks.typed_cells import code_of_typed
from jupyter_dist.server.owned_clusters import own_clusters

_DUMP = "dumpCell"
"""By this request JupyterLab asks for the file of a cell that it has the text of."""
_NOT_A_SESSION = "a session begins with `initialize` and `attach`"


class Page(DapClient):
    """A page as a client of the protocol: what it says is put in, what it hears is sent on."""

    def __init__(self, send: Callable[[bytes], None], end: Callable[[], None]) -> None:
        """Both are called on any thread: `send` with JSON, `end` when nothing more comes."""
        super().__init__()
        self._send_on, self._end = send, end
        self._said: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.has_left = threading.Event()

    def hear(self, content: bytes) -> None:
        """Take in what the page says."""
        self._said.put(content)

    def leave(self) -> None:
        """Take in that the page has gone."""
        self.has_left.set()
        self._said.put(None)

    def read(self) -> Iterator[bytes]:
        """Yield the JSON of each message until the page has gone."""
        while (content := self._said.get()) is not None:
            yield content

    def write(self, content: bytes) -> None:
        """Send it on."""
        self._send_on(content)

    def close(self) -> None:
        """End the connection to the page, and with it what it says."""
        self._end()
        self.leave()


class PageSession(threading.Thread):
    """Debugs a rank for a page from its first message to its last; then the rank goes on."""

    def __init__(
        self, page: Page, target: tuple[str, int], others: Iterable["PageSession"]
    ) -> None:
        """`target` is the name of a cluster, and a rank of it; `others` are sessions before it."""
        super().__init__(name="page-debugs-rank", daemon=True)
        self.page, self.target = page, target
        self._others = [each for each in others if each.target == target]

    def run(self) -> None:
        """Serve the page; it is told why its rank cannot be had."""
        requests = read_requests(self.page.read())
        try:
            for other in self._others:  # the same page may have been loaded again
                if other.page.has_left.wait(JUST_NOW_S):
                    other.join(LEAVING_S)
            self._others.clear()
            greeting = greet(self.page, requests)
            if greeting is not None:
                self._attach(greeting, requests)
        finally:
            self.page.close()

    def _attach(self, greeting: Greeting, requests: Requests) -> None:
        problem = ""
        if greeting.attach.get("command") != "attach" or not greeting.initialize:
            problem = _NOT_A_SESSION
        else:
            try:
                self._serve(greeting, requests)
            except DistError as error:  # there is no such cluster, or it has just ended
                problem = str(error)
        if problem:
            self.page.answer(greeting.attach, problem=problem)

    def _serve(self, greeting: Greeting, requests: Requests) -> None:
        name, rank = self.target
        own = sorted(info.name for info in own_clusters())
        if name not in own:
            raise NoCluster(name, own)
        cluster = Cluster.visit(name, await_ready=False)
        try:
            session = RankSession(self.page, greeting, rank, lines_of(cluster))
            session.serve(self._without_own(requests))
        finally:
            cluster.detach()

    def _without_own(self, requests: Requests) -> Requests:
        """Yield what is for the rank; what JupyterLab asks of kernels only is answered here."""
        for request, content in requests:
            if request.get("command") != _DUMP:
                yield request, content
                continue
            code = (request.get("arguments") or {}).get("code")
            if isinstance(code, str):
                file = write_file_name(ANY_NUMBER, code_of_typed(code))
                self.page.answer(request, {"sourcePath": file})
            else:
                self.page.answer(request, problem="dumpCell: `code` is the text of a cell")
