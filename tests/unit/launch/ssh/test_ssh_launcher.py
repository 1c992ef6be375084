import io

import msgspec
import pytest

from jupyter_dist.errors import StartFailed
from jupyter_dist.launch.launcher import GREETING, HOME_UNREACHABLE, AgentHello, JoinTicket, Ports
from jupyter_dist.launch.ssh.ssh_failures import explain_ssh
from jupyter_dist.launch.ssh.ssh_launcher import SshAgent, SshLauncher
from jupyter_dist.model.spec.cluster_spec import HostSpec

GREETED = AgentHello("jupyter-dist/4", "1.0", "/opt/env/bin/python")
INVITATION = JoinTicket(
    wire="jupyter-dist/4",
    cluster="demo",
    host="a",
    homes=("10.0.0.1", "10.1.0.1"),
    ports=Ports(5001, 5002, 5003),
    dial_timeout_s=20.0,
    ca_certificate=b"",
    certificate=b"",
    private_key=b"",
)
TOLD = "".join(
    f"Allocated port 4100{number} for remote forward to 10.0.0.1:500{number}\r\n"
    for number in (1, 2, 3)
)


@pytest.fixture
def agent(tmp_path, monkeypatch):
    """An agent on whose behalf nothing is run; its log is what the test says."""
    monkeypatch.setattr(SshAgent, "_run", lambda _self: None)
    launcher = SshLauncher(
        wire="jupyter-dist/4",
        version="1.0",
        start_method="fork",
        log_dir=tmp_path,
        timeout_s=60.0,
        install=True,
    )
    agent = launcher.start(HostSpec("a", launcher="ssh", tunnel=True))
    agent._thread.join()
    say(agent, "")
    return agent


def say(agent, text):
    agent._log_path.write_text(text)


def end(agent, status, text, hello=GREETED):
    """Have ssh end like this."""
    say(agent, text)
    agent._hello = hello
    agent._status = status
    agent._is_over.set()


# --- why it is not there ---


def test_while_it_runs_it_says_what_it_does(agent):
    assert agent.poll() is None
    assert agent.wait(0.0) is None
    say(agent, "a banner\r\n")
    told = agent.explain()
    assert agent.stage in told.reason
    assert told.last_lines == "a banner"


@pytest.mark.parametrize(
    ("status", "said", "ways_out"),
    [
        (HOME_UNREACHABLE, "10.0.0.1 is silent", ("ports", "--interface", "--tunnel")),
        (1, "the coordinator does not accept this agent's certificate", ()),
    ],
)
def test_an_agent_is_quoted_and_told_to_open_ports_where_it_finds_no_way_home(
    agent, status, said, ways_out
):
    end(agent, status, f"noise\njupyter-dist: {said}\n")
    told = agent.explain()
    assert told.reason == said
    assert bool(told.next_step) == bool(ways_out)
    assert all(way in told.next_step for way in ways_out)
    assert told.last_lines.startswith("noise\n")
    assert agent.poll() == status


def test_without_a_greeting_the_words_are_those_of_ssh_or_the_shell(agent):
    said = "jupyter-dist: there is no Python at /opt/x\n"
    end(agent, 96, said, hello=None)
    assert agent.explain().next_step == explain_ssh(agent._host, 96, said).next_step != ""


# --- greetings ---


def attend(agent, *lines):
    """What the agent is sent after it has said these lines."""
    stdin = io.BytesIO()
    agent.invite(msgspec.structs.replace(INVITATION, host="a"))
    agent._host = msgspec.structs.replace(agent._host, tunnel=False)
    agent._attend(stdin, io.BytesIO("".join(lines).encode()))
    return stdin.getvalue()


def greet(hello=GREETED, **more):
    facts = {**msgspec.to_builtins(hello), **more}
    return f"{GREETING}{msgspec.json.encode(facts).decode()}\n"


@pytest.mark.parametrize("noise", ["", "a banner\n\n", "{}\n", "no end of line: "])
def test_an_agent_that_speaks_as_we_do_gets_the_invitation(agent, noise):
    sent = attend(agent, noise, greet())
    assert sent.endswith(b"\n")
    assert msgspec.json.decode(sent, type=JoinTicket) == INVITATION
    assert agent.stage != agent._first_stage


@pytest.mark.parametrize("said", ["", "a banner\n", GREETING[:-1] + "\n"])
def test_nothing_secret_is_sent_to_what_has_not_greeted(agent, said):
    assert attend(agent, said) == b""


def test_a_greeting_may_have_fields_of_a_later_version(agent):
    assert attend(agent, greet(mood="good")) != b""


FOREIGN = greet(AgentHello("jupyter-dist/0", "0.1", "/opt/python"))


@pytest.mark.parametrize(
    "line",
    [
        FOREIGN,
        greet(AgentHello("jupyter-dist/0", "1.0", "python")),
        f"{GREETING}\n",
        f"{GREETING}hello\n",
        f"{GREETING}{{}}\n",
        greet(wire=7),
    ],
)
def test_an_agent_that_speaks_otherwise_gets_nothing_and_is_told_apart(agent, line):
    assert attend(agent, line) == b""
    say(agent, "last")
    told = agent.explain()
    assert "(1.0)" in told.reason
    assert "jupyter-dist/4" in told.reason
    assert ("0.1 (/opt/python) speaks jupyter-dist/0" in told.reason) is (line == FOREIGN)
    assert "--install" in told.next_step
    assert told.last_lines == "last"
    assert agent._wants_install(), "though it may be called the same"


def test_before_an_installation_another_version_gets_nothing(agent):
    assert attend(agent, greet(AgentHello("jupyter-dist/4", "0.9", "python"))) == b""
    assert agent._wants_install()


# --- whether installing would help ---


NOT_THERE = "python: No module named 'jupyter_dist'\n"


@pytest.mark.parametrize(
    ("status", "said", "hello", "is_wanted"),
    [
        (0, "", GREETED, False),
        (1, NOT_THERE, AgentHello("jupyter-dist/4", "0.9", "python"), True),
        (1, NOT_THERE, None, True),
        (255, "ssh: connect to host a port 22: Connection refused\n", None, False),
    ],
    ids=["the same version", "another version", "none", "another cause"],
)
def test_what_installing_mends_is_installed(agent, status, said, hello, is_wanted):
    end(agent, status, said, hello)
    assert agent._wants_install() is is_wanted


def test_nothing_is_installed_for_nobody(agent):
    end(agent, 1, NOT_THERE, hello=None)
    agent.terminate()
    assert not agent._wants_install()


# --- the tunnel ---


@pytest.mark.parametrize(("home", "place"), [("10.0.0.1", "10.0.0.1"), ("fd00::1", "[fd00::1]")])
def test_every_port_of_the_likeliest_home_is_forwarded(agent, home, place):
    agent.invite(msgspec.structs.replace(INVITATION, homes=(home, "10.1.0.1")))
    assert agent._forwarded() == (f"{place}:5001", f"{place}:5002", f"{place}:5003")


def test_an_agent_that_nobody_invites_any_more_forwards_nothing(agent):
    agent.kill()
    assert agent._forwarded() == ()


@pytest.mark.parametrize("home", ["10.0.0.1", "fd00::1"])
def test_through_a_tunnel_the_agent_is_told_its_own_end(agent, home):
    say(agent, "a banner\r\n" + TOLD.replace("10.0.0.1", home) + "more\r\n")
    told = agent._through_tunnel(INVITATION)
    assert told.homes == ("127.0.0.1",)
    assert told.ports == Ports(41001, 41002, 41003)
    assert told.private_key == INVITATION.private_key


def test_when_ssh_does_not_say_its_ports_the_user_is_told_why(agent):
    say(agent, TOLD.splitlines()[0])
    with pytest.raises(StartFailed, match="LogLevel"):
        agent._through_tunnel(INVITATION)


def test_without_a_tunnel_the_invitation_is_passed_on_as_it_is(agent):
    agent._host = msgspec.structs.replace(agent._host, tunnel=False)
    assert agent._forwarded() == ()
    assert agent._through_tunnel(INVITATION) is INVITATION
