import pytest

from jupyter_dist.coordinator.observation.attention import BRIEF_S, LINGER_S, Attention
from jupyter_dist.coordinator.state.clock import NEVER
from jupyter_dist.model.hosts.looks import LOOK_INTERVAL_S
from jupyter_dist.protocol import host_agent_pb2 as pb


@pytest.fixture
def attention(cluster):
    return Attention(cluster.roster, cluster.sender)


def told(cluster, host):
    return [
        command.observe.is_close
        for name, command in cluster.sender.commands
        if name == host and command.WhichOneof("command") == "observe"
    ]


def test_every_host_is_told_when_to_look_closely_and_when_no_longer(attention, cluster):
    attention.tick(True, False, {}, 0.0)
    assert told(cluster, "a") == [], "agents begin with that"
    assert attention.tick(False, False, {}, 1.0) == LINGER_S, "others may need it soon again"
    assert attention.tick(False, False, {}, LINGER_S) == NEVER
    attention.tick(False, False, {}, 50.0)
    attention.tick(True, False, {}, 60.0)
    for host in cluster.roster.hosts:
        assert told(cluster, host) == [False, True]


@pytest.mark.parametrize(
    "need",
    [
        lambda roster: roster[1].start_work("In[1]", 0.0),
        lambda roster: roster.start_task(1, "apply f", 0.0),
    ],
)
def test_ranks_that_are_busy_are_looked_at_closely(attention, cluster, need):
    attention.tick(False, False, {}, LINGER_S)
    need(cluster.roster)
    attention.tick(False, False, {}, LINGER_S + 1.0)
    attention.tick(False, False, {}, LINGER_S + 1.0 + BRIEF_S)
    assert told(cluster, "a") == [False, True]


def silences_told(cluster):
    return [
        (name, list(command.observe.silent), command.observe.is_close)
        for name, command in cluster.sender.commands
    ]


def test_silent_engines_are_named_to_their_agents_which_look_closely(attention, cluster):
    attention.tick(False, False, {}, LINGER_S)
    cluster.sender.commands.clear()
    attention.tick(False, False, {"b": ["2"]}, 10.0)
    assert silences_told(cluster) == [("b", ["2"], False)]
    due_s = attention.tick(False, False, {"b": ["2"]}, 10.0 + BRIEF_S)
    assert silences_told(cluster)[1:] == [("a", [], True), ("b", ["2"], True)]
    assert due_s == 10.0 + BRIEF_S + LINGER_S


def test_news_of_silence_are_gathered_and_its_end_is_told_when_all_have_answered(
    attention, cluster
):
    attention.tick(False, False, {"a": ["0"]}, 1.0)
    later_s = 1.0 + LOOK_INTERVAL_S
    assert attention.tick(False, False, {"a": ["0", "1"]}, 1.1) == later_s
    assert attention.tick(False, False, {"a": ["1"], "b": ["2"]}, 1.2) == later_s
    attention.tick(False, False, {"a": ["1"], "b": ["2"]}, later_s)
    attention.tick(False, False, {"b": ["2"]}, later_s + 1.0)
    attention.tick(False, False, {}, later_s + 2.0)
    assert silences_told(cluster) == [
        ("a", ["0"], True),
        ("a", ["0", "1"], True),
        ("b", ["2"], True),
        ("a", [], True),
        ("b", [], True),
    ]


def test_work_that_is_soon_done_is_left_alone(attention, cluster):
    attention.tick(False, False, {}, LINGER_S)
    for begun_s in (10.0, 10.0 + BRIEF_S, 10.0 + 2 * BRIEF_S):
        due_s = attention.tick(False, True, {}, begun_s)
        assert due_s == begun_s + BRIEF_S
        assert attention.tick(False, False, {}, begun_s + 0.9 * BRIEF_S) == NEVER
    assert told(cluster, "a") == [False]
    attention.tick(False, True, {}, 20.0)
    attention.tick(False, True, {}, 20.0 + BRIEF_S)
    assert told(cluster, "a") == [False, True]


def test_the_more_ranks_there_are_the_longer_work_is_left_alone(attention, cluster, monkeypatch):
    attention.tick(False, False, {}, LINGER_S)
    few_s = attention.tick(False, True, {}, 10.0)
    monkeypatch.setattr(type(cluster.roster), "world_size", 4096)
    many_s = attention.tick(False, True, {}, 10.0)
    assert few_s < many_s < 10.0 + LINGER_S
    attention.tick(False, True, {}, few_s)
    assert told(cluster, "a") == [False]
    attention.tick(False, True, {}, many_s)
    assert told(cluster, "a") == [False, True]


def test_what_is_known_is_fresh_when_every_host_has_looked_again(attention, cluster):
    for host in cluster.roster.hosts:
        cluster.roster.hosts[host].joined = pb.Joined(host=host)
    attention.tick(True, False, {}, 0.0)
    assert attention.is_fresh(), "they look all the time"
    attention.tick(False, False, {}, LINGER_S)
    assert not attention.is_fresh()
    attention.tick(True, False, {}, 9.0)
    cluster.roster.take_telemetry("a", pb.Telemetry(), 9.1)
    assert not attention.is_fresh()
    cluster.roster.take_telemetry("b", pb.Telemetry(), 9.2)
    assert attention.is_fresh()
    cluster.roster.hosts["b"].told_s = 0.0
    cluster.roster.hosts["b"].is_lost = True
    assert attention.is_fresh()
