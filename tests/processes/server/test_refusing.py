"""What a real Jupyter Server does not accept from its pages, and from strangers."""

import pytest
from tornado.httpclient import HTTPClientError

from jupyter_dist.launch.files.connection_file import connection_path
from tests.processes.web import Browser, Feed

# --- what is not accepted ---


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("clusters", b"{", 400, "Accepted: an id"),
        ("clusters", {"count": 1}, 400, "missing required field `id`"),
        ("clusters", {"id": "x", "count": 1, "hosts": "a"}, 400, "hosts and count"),
        ("clusters", {"id": "x", "hosts": "a:b:c"}, 400, "'a:b:c'"),
        ("clusters", {"id": "x", "count": 1, "name": "../up"}, 400, "'../up'"),
        ("clusters", {"id": "x", "spec": "/etc/passwd"}, 400, "'/etc/passwd' is not"),
        ("clusters", {"id": "x", "spec": "../x.toml"}, 400, "'../x.toml' is not"),
        ("clusters", {"id": "x", "spec": "none.toml"}, 400, "none.toml"),
        ("clusters/none/requests", {"id": "x", "kind": "stop"}, 404, "'none'"),
        ("clusters/..%2Fx/requests", {"id": "x", "kind": "stop"}, 404, "'../x'"),
        ("clusters/a/b/requests", {"id": "x", "kind": "stop"}, 404, "'a/b'"),
        ("clusters/none/requests", {"id": "x", "kind": "burn"}, 400, "interrupt, stacks"),
        ("clusters/none/requests", b"x" * 70_000, 400, "70,000 bytes"),
    ],
)
def test_what_is_not_accepted_says_what_is(browser, path, body, status, words):
    code, answer = browser.post(f"jupyter-dist/{path}", body)
    assert (code, words in answer["message"]) == (status, True), answer


def test_a_feed_says_what_it_does_not_understand_and_goes_on(start, feed):
    start("localhost:1", name="here")
    page = feed("nowhere")
    gone = page.wait_for("gone")
    assert (gone["cluster"], "'nowhere'" in gone["text"]) == ("nowhere", True)
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
