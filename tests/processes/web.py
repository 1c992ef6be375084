"""A real Jupyter Server with our extension, and pages that speak to it as browsers do."""

import asyncio
import base64
import copy
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from http.cookies import SimpleCookie
from pathlib import Path

from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from tests.patience import Stopwatch, firm_s
from tests.told_page import ToldPage

from .leftovers import wait_until

CONFIG = Path(__file__).parents[2] / "jupyter-config" / "jupyter_server_config.d"
TOKEN = "a-token-of-this-test"
OTHERS = ("jupyterlab", "notebook", "notebook_shim", "jupyter_lsp", "jupyter_server_terminals")


class JupyterServer:
    """The process, with directories of its own."""

    def __init__(self, folder, base_url="/", *options):
        self.root = folder / "notebooks"
        self.config = folder / "config"
        self.log = folder / "server.log"
        self.base_url = base_url
        self._options = options
        self.root.mkdir(parents=True)
        shutil.copytree(CONFIG, self.config / "jupyter_server_config.d")
        other = {"ServerApp": {"jpserver_extensions": dict.fromkeys(OTHERS, False)}}
        (self.config / "jupyter_server_config.json").write_text(json.dumps(other))
        self._start()

    def _start(self):
        runtime_dir = Path(os.environ["JUPYTER_RUNTIME_DIR"])
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root"),
                    *("--ServerApp.port=0", "--ServerApp.ip=127.0.0.1"),
                    f"--IdentityProvider.token={TOKEN}",
                    f"--ServerApp.root_dir={self.root}",
                    f"--ServerApp.base_url={self.base_url}",
                    f"--ServerApp.cookie_secret_file={self.config / 'cookie_secret'}",
                    *self._options,
                ],
                env={
                    **os.environ,
                    "JUPYTER_CONFIG_DIR": str(self.config),
                    "JUPYTER_DATA_DIR": str(self.config / "data"),
                    "JUPYTER_PREFER_ENV_PATH": "0",
                },
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        info = runtime_dir / f"jpserver-{self.process.pid}.json"

        def port():
            assert self.process.poll() is None, self.log.read_text()
            written = info.read_text() if info.exists() else ""
            if not written.rstrip().endswith("}"):  # it is not written in one piece
                return None
            found = json.loads(written)["port"]
            with socket.socket() as attempt:  # it is written before the server listens
                return found if attempt.connect_ex(("127.0.0.1", found)) == 0 else None

        try:
            self.port = wait_until(port, 60, "the server listens")
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise
        self.origin = f"127.0.0.1:{self.port}"
        self.address = f"http://{self.origin}{self.base_url}"

    def end(self, within_s=10.0):
        """End it as an operator does; gives how long that took."""
        watch = Stopwatch()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(firm_s(within_s))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the server did not end:\n{self.log.read_text()}") from None
        watch.assert_less(within_s, "the end of the server")
        return watch.spell().took_s

    def restart(self):
        """Start it again after its end."""
        self._start()


class Browser:
    """Somebody who has logged in with the token: cookies, and XSRF's header on writes."""

    def __init__(self, server, *, token=TOKEN, origin=None):
        self.server = server
        self.origin = origin
        self.cookies = {}
        if token:
            opener = urllib.request.build_opener(_NoRedirect)
            for path in ("login", f"login?token={token}"):  # the form sets the cookie of XSRF
                request = urllib.request.Request(f"{server.address}{path}", headers=self.headers())
                try:
                    answer = opener.open(request, timeout=10)
                except urllib.error.HTTPError as redirect:
                    answer = redirect
                with answer:
                    headers = answer.headers.get_all("Set-Cookie") or ()
                for header in headers:
                    self.cookies |= {key: one.value for key, one in SimpleCookie(header).items()}

    def headers(self):
        """What a browser sends along."""
        cookies = "; ".join(f"{key}={value}" for key, value in self.cookies.items())
        origin = {"Origin": self.origin} if self.origin else {}
        return {"Cookie": cookies, **origin}

    def get(self, path):
        """Give status and answer."""
        return self._ask("GET", path, None, {})

    def post(self, path, body, *, with_xsrf=True, timeout_s=60.0):
        """Give status and answer; a body of bytes is sent as it is."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        xsrf = {"X-XSRFToken": self.cookies.get("_xsrf", "")} if with_xsrf else {}
        return self._ask("POST", path, data, xsrf, timeout_s)

    def ask(self, cluster, kind, request_id=None, **more):
        """Have a cluster do something; gives the replies."""
        request = {"id": request_id or f"{kind}-{time.monotonic_ns()}", "kind": kind, **more}
        status, answer = self.post(f"jupyter-dist/clusters/{cluster}/requests", request)
        assert status == 200, answer
        return answer["replies"]

    def clusters(self):
        """Give the list by name."""
        status, answer = self.get("jupyter-dist/clusters")
        assert status == 200, answer
        return {row["name"]: row for row in answer["clusters"]}

    def row(self, name, within_s=20.0):
        """Give one cluster's row, once its coordinator has answered: a busy machine takes a look more."""
        watch = Stopwatch()
        while True:
            row = self.clusters()[name]
            if row["state"] != "silent":
                return row
            assert not watch.is_over(within_s), row

    def _ask(self, method, path, data, headers, timeout_s=60.0):
        request = urllib.request.Request(
            f"{self.server.address}{path}",
            data=data,
            headers={**self.headers(), "Content-Type": "application/json", **headers},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as answer:
                return answer.status, _read(answer)
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, _read(refused)


def _read(answer):
    assert answer.headers["Content-Type"].startswith("application/json"), answer.headers
    return json.loads(answer.read())


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args):
        return None


class PageSocket:
    """A page's WebSocket on an event loop of its own."""

    def __init__(self, browser, path, take):
        """Connect; `take` gets each text that comes, and None at the end, on another thread."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        url = f"ws://{browser.server.origin}{browser.server.base_url}jupyter-dist/{path}"
        request = HTTPRequest(url, headers=browser.headers())
        try:
            self._socket = self._do(lambda: websocket_connect(request, on_message_callback=take))
        except BaseException:
            self.end()
            raise

    @property
    def is_over(self):
        return self._loop.is_closed()

    def send(self, text):
        """Send anything."""
        self._do(lambda: self._socket.write_message(text))

    def close(self):
        """Say that the page leaves."""
        self._loop.call_soon_threadsafe(self._socket.close)

    def end(self):
        """End the event loop, once the other side has closed."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def _do(self, call):
        async def wait():
            return await call()

        return asyncio.run_coroutine_threadsafe(wait(), self._loop).result(60)


class Feed:
    """A page's live feed; everything that comes is remembered."""

    def __init__(self, browser, follow=None, rank=None):
        self.messages = []
        self.times_s = []
        self._told = {}
        self._news = threading.Condition()
        self._socket = PageSocket(browser, "feed", self._take)
        if follow is not None:
            self.follow(follow, rank)

    def follow(self, cluster, rank=None):
        """Ask to be shown a cluster."""
        self.send(json.dumps({"kind": "follow", "cluster": cluster, "rank": rank}))

    def send(self, text):
        """Send anything."""
        self._socket.send(text)

    def of(self, kind):
        """Everything of one kind so far."""
        with self._news:
            return [message for message in self.messages if message["kind"] == kind]

    def wait_for(self, kind, fits=bool, within_s=15.0, since=0):
        """Wait for a message; gives the first of this kind that fits."""

        def find():
            kinds = [m for m in self.messages[since:] if m["kind"] == kind]
            return next((message for message in kinds if fits(message)), None)

        watch = Stopwatch()
        with self._news:
            while (found := find()) is None and (left_s := watch.left_s(within_s)):
                self._news.wait(left_s)
            last = [m for m in self.messages if m["kind"] == kind][-2:]
            kinds = [m["kind"] for m in self.messages]
            assert found is not None, f"no {kind} that fits; there were {kinds}; last {last}"
            return found

    def mark(self):
        """Number of messages so far, for `since`."""
        with self._news:
            return len(self.messages)

    def close(self):
        """Close the page; twice is fine."""
        if self._socket.is_over:
            return
        self._socket.close()
        self.wait_for("closed")
        self._socket.end()

    def _take(self, text):
        with self._news:
            if text is not None:
                self.messages.append(self._complete(json.loads(text)))
                self.times_s.append(time.monotonic())
            else:
                self.messages.append({"kind": "closed"})
                self.times_s.append(time.monotonic())
            self._news.notify_all()

    def _complete(self, message):
        """Add the whole topology to what was told of it, as a page has it then."""
        if message["kind"] == "topology":
            page = self._told.setdefault(message["cluster"], ToldPage())
            page.take(message["told"])
            assert page.state is not None, "a page that reads all is told each change"
            message["topology"] = copy.deepcopy(page.state)
        return message


class Lazy:
    """A page that follows a cluster and reads nothing of it, until it is told to."""

    def __init__(self, browser, cluster):
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._socket.settimeout(30)
        self._socket.connect(("127.0.0.1", browser.server.port))
        lines = [
            f"GET {browser.server.base_url}jupyter-dist/feed HTTP/1.1",
            f"Host: {browser.server.origin}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
            "Sec-WebSocket-Version: 13",
            *(f"{key}: {value}" for key, value in browser.headers().items()),
        ]
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode())
        self._file = self._socket.makefile("rb")
        assert b" 101 " in self._file.readline()
        while self._file.readline().strip():
            continue
        text = json.dumps({"kind": "follow", "cluster": cluster}).encode()
        # Short, final, masked with zeros: text stays as it is.
        self._socket.sendall(bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text)

    def read_until(self, fits):
        """Read at last; gives all messages up to the first that fits, and closes the page."""
        found = []
        with self._socket, self._file:
            while not (found and fits(found[-1])):
                kind, length = self._file.read(2)
                if length >= 126:
                    length = int.from_bytes(self._file.read(2 if length == 126 else 8), "big")
                body = self._file.read(length)
                if kind & 0x0F == 1:
                    found.append(json.loads(body))
        return found
