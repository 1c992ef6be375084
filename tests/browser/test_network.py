"""Pages are not disturbed by what happens to the addresses of this machine."""

import http.server
import os
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from .network import OwnNetwork

_INTERFACE = "jdbrowser0"
_ASK_UNTIL_TOLD = """() => {
  window.failed = window.answered = window.ended = 0;
  const ask = () => fetch('/')
    .then(() => { window.answered += 1; }, () => { window.failed += 1; })
    .then(() => { if (window.isOver) window.ended += 1; else ask(); });
  for (let each = 0; each < 8; each++) ask();
}"""
_WAIT_FOR_ANSWERS = """() => new Promise(resolve => {
  const enough = window.answered + window.failed + 20;
  const look = () => window.answered + window.failed >= enough ? resolve() : setTimeout(look, 5);
  look();
})"""


class _Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def served() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_requests_survive_what_happens_to_the_addresses_of_this_machine(
    chromium: Any, served: str, own_network: OwnNetwork
) -> None:
    if os.geteuid():
        pytest.skip("only root gives this machine addresses")
    page = chromium.new_page()
    page.goto(served)
    page.evaluate(_ASK_UNTIL_TOLD)
    with own_network.outside():
        for _ in range(5):
            _ip(f"link add {_INTERFACE} type veth peer name {_INTERFACE}p")
            _ip(f"addr add 10.255.255.1/32 dev {_INTERFACE}")
            _ip(f"link set {_INTERFACE} up")
            page.evaluate(_WAIT_FOR_ANSWERS)
            _ip(f"link del {_INTERFACE}")
    page.evaluate("window.isOver = true")
    page.wait_for_function("window.ended === 8")
    assert page.evaluate("window.failed") == 0
    page.close()


def _ip(command: str) -> None:
    subprocess.run(["ip", *command.split()], check=True, capture_output=True)
