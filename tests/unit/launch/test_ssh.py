import io

import msgspec
import pytest

from jupyter_dist.errors import StartFailed
from jupyter_dist.launch.base import (
    GREETING,
    HOME_UNREACHABLE,
    Failure,
    Greeting,
    Invitation,
    Ports,
)
from jupyter_dist.launch.ssh import SshAgent, SshLauncher, SshOrder
from jupyter_dist.launch.ssh_failures import explain_ssh
from jupyter_dist.model.spec import HostSpec

GREETED = Greeting("jupyter-dist/1", "1.0", "/opt/env/bin/python")
INVITATION = Invitation(
    wire="jupyter-dist/1",
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
    f"Allocated port {given} for remote forward to {home}:{port}\r\n"
    for given, home, port in [
        (41001, "10.0.0.1", 5001),
        (41002, "10.0.0.1", 5002),
        (41003, "10.0.0.1", 5003),
    ]
)


@pytest.fixture
def agent(tmp_path, monkeypatch):
    """An agent on whose behalf nothing is run; its log is what the test says."""
    monkeypatch.setattr(SshAgent, "_run", lambda _self: None)
    order = SshOrder(
        wire="jupyter-dist/1",
        version="1.0",
        start_method="fork",
        log_dir=tmp_path,
        timeout_s=60.0,
        install=True,
    )
    agent = SshLauncher(order).start(HostSpec("a", launcher="ssh", tunnel=True))
    agent._thread.join()
    say(agent, "")
    return agent


def say(agent, text):
    agent._log_path.write_text(text)


def end(agent, status, text, greeting=GREETED):
    """Have ssh end like this."""
    say(agent, text)
    agent._greeting = greeting
    agent._status = status
    agent._is_over.set()


# --- why it is not there ---


def test_while_it_runs_it_says_what_it_does(agent):
    assert agent.poll() is None
    assert agent.wait(0.0) is None
    say(agent, "a banner\r\n")
    told = agent.explain()
    assert told == Failure("after ssh connects nothing more came", last_lines="a banner")


def test_an_agent_that_finds_no_way_home_is_quoted_with_what_can_be_done(agent):
    end(agent, HOME_UNREACHABLE, "noise\njupyter-dist: no address works: 10.0.0.1 is silent\n")
    told = agent.explain()
    assert told.reason == "no address works: 10.0.0.1 is silent"
    for way_out in ("ports", "--interface", "--tunnel"):
        assert way_out in told.next_step
    assert told.last_lines.startswith("noise\n")
    assert agent.poll() == HOME_UNREACHABLE


def test_an_agent_that_is_not_wanted_is_not_told_to_open_ports(agent):
    end(agent, 1, "jupyter-dist: the coordinator does not accept this agent's certificate\n")
    told = agent.explain()
    assert told.reason == "the coordinator does not accept this agent's certificate"
    assert told.next_step == ""


def test_without_a_greeting_the_words_are_those_of_ssh_or_the_shell(agent):
    said = "jupyter-dist: there is no Python at /opt/x\n"
    end(agent, 96, said, greeting=None)
    assert agent.explain().next_step == explain_ssh(agent._host, 96, said).next_step != ""


def test_a_mismatch_names_both_versions_and_the_way_out(agent):
    agent._failure = agent._mismatch(Greeting("jupyter-dist/0", "0.1", "/usr/bin/python3"))
    say(agent, "the last line")
    told = agent.explain()
    assert told.reason == (
        "its jupyter-dist 0.1 (/usr/bin/python3) speaks jupyter-dist/0, this one (1.0) speaks "
        "jupyter-dist/1"
    )
    assert "--install" in told.next_step
    assert told.last_lines == "the last line"


# --- greetings ---


def attend(agent, *lines):
    """What the agent is sent after it has said these lines."""
    stdin = io.BytesIO()
    agent.invite(msgspec.structs.replace(INVITATION, host="a"))
    agent._host = msgspec.structs.replace(agent._host, tunnel=False)
    agent._attend(stdin, io.BytesIO("".join(lines).encode()))
    return stdin.getvalue()


def greet(greeting=GREETED, **more):
    facts = {**msgspec.to_builtins(greeting), **more}
    return f"{GREETING}{msgspec.json.encode(facts).decode()}\n"


@pytest.mark.parametrize("noise", ["", "a banner\n\n", "{}\n", "no end of line: "])
def test_an_agent_that_speaks_as_we_do_gets_the_invitation(agent, noise):
    sent = attend(agent, noise, greet())
    assert sent.endswith(b"\n")
    assert msgspec.json.decode(sent, type=Invitation) == INVITATION
    assert agent.stage == "the agent dials home"


@pytest.mark.parametrize("said", ["", "a banner\n", GREETING[:-1] + "\n"])
def test_nothing_secret_is_sent_to_what_has_not_greeted(agent, said):
    assert attend(agent, said) == b""


def test_a_greeting_may_have_fields_of_a_later_version(agent):
    assert attend(agent, greet(mood="good")) != b""


@pytest.mark.parametrize(
    "line",
    [
        greet(Greeting("jupyter-dist/0", "1.0", "python")),
        f"{GREETING}\n",
        f"{GREETING}hello\n",
        f"{GREETING}{{}}\n",
        greet(wire=7),
    ],
)
def test_an_agent_that_speaks_otherwise_gets_nothing_and_is_told_apart(agent, line):
    assert attend(agent, line) == b""
    assert "speaks jupyter-dist/1" in agent.explain().reason
    assert "Install the same version on both" in agent.explain().next_step


def test_before_an_installation_another_version_gets_nothing(agent):
    assert attend(agent, greet(Greeting("jupyter-dist/1", "0.9", "python"))) == b""
    assert agent._wants_install()


# --- whether installing would help ---


def test_an_agent_of_the_same_version_is_not_installed_again(agent):
    end(agent, 0, "")
    assert not agent._wants_install()


@pytest.mark.parametrize("greeting", [Greeting("jupyter-dist/1", "0.9", "python"), None])
def test_another_version_or_none_is_replaced(agent, greeting):
    end(agent, 1, "python: No module named 'jupyter_dist'\n", greeting)
    assert agent._wants_install()


def test_a_version_that_speaks_otherwise_is_replaced_though_it_is_called_the_same(agent):
    other = Greeting("jupyter-dist/0", "1.0", "python")
    end(agent, 0, "", other)
    agent._failure = agent._mismatch(other)
    assert agent._wants_install()


def test_what_has_another_cause_is_not_mended_by_installing(agent):
    end(agent, 255, "ssh: connect to host a port 22: Connection refused\n", greeting=None)
    assert not agent._wants_install()


def test_nothing_is_installed_for_nobody(agent):
    end(agent, 1, "python: No module named 'jupyter_dist'\n", greeting=None)
    agent.terminate()
    assert not agent._wants_install()


# --- the tunnel ---


def test_every_port_of_the_likeliest_home_is_forwarded(agent):
    agent.invite(INVITATION)
    assert agent._forwarded() == ("10.0.0.1:5001", "10.0.0.1:5002", "10.0.0.1:5003")


def test_an_ipv6_home_is_forwarded_in_brackets(agent):
    agent.invite(msgspec.structs.replace(INVITATION, homes=("fd00::1",)))
    assert agent._forwarded()[0] == "[fd00::1]:5001"


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
