"""An agent without its process: one order, or one damaged file, costs nobody a rank."""

from unittest.mock import Mock

import pytest

from jupyter_dist.agent.agent import Agent
from jupyter_dist.agent.engines.exit_evidence import Ended
from jupyter_dist.protocol import host_agent_pb2 as pb


@pytest.fixture
def agent():
    """All of its parts are played."""
    agent = Agent.__new__(Agent)
    for part in (
        *("_stream", "_engines", "_zygote", "_preemption", "_services", "_telemetry", "_over"),
    ):
        setattr(agent, part, Mock())
    agent._stream.refusal = ""
    return agent


def told(agent):
    return [call.args[0] for call in agent._stream.tell.call_args_list]


def test_an_end_is_told_also_when_what_is_known_of_it_is_damaged(agent, capfd):
    agent._engines.exit_event.side_effect = ValueError("damaged")
    exited = agent._describe_exit("1", Ended(pid=7, exit_code=3))
    assert (exited.engine, exited.pid, exited.exit_code) == ("1", 7, 3)
    assert "damaged" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("order", "kind"),
    [
        (pb.AgentCommand(start_engines=pb.StartEngines()), "start_problem"),
        (pb.AgentCommand(dump_stacks=pb.DumpStacks()), "note"),
    ],
)
def test_an_order_that_fails_is_told_and_the_next_one_obeyed(agent, capfd, order, kind):
    obeyed = []

    def obey(command):
        obeyed.append(command)
        if command is order:
            raise RuntimeError("no thread \ud800")

    agent._obey = obey
    stop = pb.AgentCommand(stop=pb.Stop())
    agent._stream.commands.return_value = iter([order, stop])
    agent.serve()
    assert obeyed == [order, stop]
    (event,) = told(agent)
    assert event.WhichOneof("event") == kind
    assert "no thread" in str(event)
    assert "no thread" in capfd.readouterr().err


def test_a_divided_gpu_that_is_given_whole_is_told_once(agent, monkeypatch):
    monkeypatch.setattr(
        "jupyter_dist.agent.agent.divided_gpus", lambda names: sorted({int(n) for n in names} & {2})
    )
    agent._warn_of_mig(["0,2", "2"])
    (event,) = told(agent)
    assert "GPU 2 is in MIG mode" in event.note.text
    assert "CUDA_VISIBLE_DEVICES=MIG-" in event.note.text


def test_ranks_without_room_are_not_begun(agent, monkeypatch):
    monkeypatch.setattr("jupyter_dist.agent.agent.find_lack", lambda *asked: f"no room: {asked}")
    places = [pb.RankPlace(engine=str(rank), rank=rank, world_size=9) for rank in (3, 4)]
    agent._start_engines(pb.StartEngines(places=places, cwd="/"))
    (event,) = told(agent)
    assert event.start_problem.reason == "no room: (2, 9)"
    agent._zygote.start_engines.assert_not_called()
