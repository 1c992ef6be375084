import sys

from jupyter_dist.mcp.guide import read_skill


def test_a_grant_is_given_in_a_terminal(dist, demo):
    status, out, err = dist("allow", "agent", "--for", "1h", "--may", "run", "--name", "demo")
    assert (status, err, demo.calls) == (0, "", [("allow", "run", 3600.0)])
    assert "the-token" in out
    assert "%" not in out


def test_grants_are_listed_and_taken_back(dist, demo):
    assert "grant 2: run" in dist("allow")[1]
    assert dist("allow", "--revoke", "2")[0] == 0
    assert demo.calls == [("revoke", 2)]


def test_a_mistake_is_one_line_and_status_2(dist, demo):
    status, out, err = dist("allow", "someone")
    assert (status, out, len(err.splitlines())) == (2, "", 1)


def test_the_skill_is_written(dist):
    assert dist("mcp", "--skill") == (0, read_skill(), "")


def test_without_the_sdk_it_is_said_how_to_get_it(dist, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    status, out, err = dist("mcp")
    assert (status, out, "jupyter-dist[mcp]" in err) == (2, "", True)
