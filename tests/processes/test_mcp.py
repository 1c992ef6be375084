"""A conversation of MCP's own client with `jupyter dist mcp`, about clusters that are real."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from contextlib import asynccontextmanager
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import pytest

from jupyter_dist import Cluster
from jupyter_dist.mcp.answers import BAR
from jupyter_dist.mcp.call_limit import MOST_CALLS
from tests.architecture.sources import ROOT
from tests.facts import assert_tells
from tests.patience import wait_until

mcp = pytest.importorskip("mcp", reason="MCP's SDK is not installed: jupyter-dist[mcp]")
from mcp.client.extension import ClientExtension, ResultClaim  # noqa: E402
from pydantic import ConfigDict, Field  # noqa: E402

HANG = "import numpy as np\nstep = rank\nif rank != 1:\n    comm.all_reduce(np.ones(4))"


class Anything(mcp.types.Result):
    """What a method of an extension answers."""

    model_config = ConfigDict(extra="allow")


class Agent:
    """Calls tools, and knows which answers are errors."""

    def __init__(self, client):
        self.client = client

    async def call(self, name, **given):
        result = await self.client.call_tool(name, given)
        assert result.structured_content is None, "it would be sent twice"
        return result.is_error, "\n".join(part.text for part in result.content)

    async def ask(self, name, **given):
        is_error, text = await self.call(name, **given)
        assert not is_error, text
        return text

    async def refused(self, name, **given):
        is_error, text = await self.call(name, **given)
        assert is_error, text
        return text


@asynccontextmanager
async def connected(**how):
    """Start the server as an MCP client does, and end it."""
    words = ["-m", "jupyter_dist.cli", "mcp"]
    server = mcp.StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
    who = mcp.types.Implementation(name="test-agent", version="1")
    async with mcp.Client(server, client_info=who, **how) as client:
        yield Agent(client)


def converse(talk, **how):
    """Run a conversation in a program of its own."""

    async def run():
        async with connected(**how) as agent:
            return await talk(agent)

    return asyncio.run(run())


@pytest.fixture
def hanging(start):
    """A cluster of which rank 1 never comes to a collective."""
    cluster = start("localhost:3", name="demo")
    cell = cluster.run_in_background(HANG, label=5)
    wait_until(lambda: "rank 1 finished" in cluster.explain(), 20, "the verdict")
    yield cluster
    cluster.interrupt()
    wait_until(lambda: cell.is_done, 20, "the end of the cell")


@pytest.mark.slow
def test_the_steps_of_the_guide_name_rank_and_line_of_a_hang(hanging):
    async def talk(agent):
        assert_tells(await agent.ask("dist_guide"), "2. `dist_explain()`")
        assert_tells(await agent.ask("dist_clusters"), "demo", "ready")
        verdict = await agent.ask("dist_explain")
        assert_tells(verdict, "cluster demo: ranks 0,2 hung, rank 1 idle on localhost", "seen at")
        assert_tells(verdict, "| In[5]: ", "ranks 0,2 wait", "In[5]:4", "rank 1 finished the cell")
        status = await agent.ask("dist_status", cluster="demo")
        assert_tells(status, "AI agents may only look")
        assert_tells(status, "| ", "localhost", "hung")
        calls = await agent.ask("dist_collectives", last=5)
        assert_tells(calls, "| ▶", "all_reduce", "In[5]:4")
        assert_tells(await agent.ask("dist_stacks", ranks="0,2"), "| ▶ In[5]:4")
        assert_tells(await agent.ask("dist_who", names="step"), "| ▶  step", "int")
        values = await agent.ask("dist_value", place="step", ranks="0,2")
        assert "| rank 2: int\n| 2" in values
        assert "UsageError" in await agent.refused("dist_value", place="step + 1")

    converse(talk)


def test_without_a_grant_nothing_is_done_and_with_one_the_person_sees_it(hanging):
    async def talk(agent):
        for token in ("", "nonsense"):
            told = await agent.refused("dist_interrupt", grant=token)
            assert_tells(told, "NotAllowed", "%dist_allow agent")
        given = hanging.allow_agents("interrupt", for_s=60)
        assert "heal" in await agent.refused("dist_heal", grant=given.token)
        assert_tells(await agent.ask("dist_interrupt", grant=given.token), "interrupted rank")
        assert "NotAllowed" in await agent.refused("dist_run", code="1", grant=given.token)

    converse(talk)
    [grant] = hanging.grants()
    assert (grant.acts, grant.last) == (1, "interrupt by AI agent test-agent")
    assert hanging.run("1", label=6).ok
    notes = [each.text for each in hanging.replay(6).events if hasattr(each, "is_passing")]
    assert any("AI agent test-agent" in note and "interrupt" in note for note in notes)


@pytest.mark.slow
def test_a_cell_is_begun_at_once_and_read_on_from_a_mark(start, hold):
    cluster = start("localhost:2", name="demo")
    token = cluster.allow_agents("run", for_s=60).token
    code = hold("print('first \\x1b[2J\\u202e\\nseen at')", "print('later')")

    async def talk(agent):
        begun = await agent.ask("dist_run", code=code, grant=token)
        label = re.match(r"In\[1\d{4}\]", begun)[0]
        wait_until(lambda: "seen at" in str(cluster.replay().events), 20, "the first lines")
        first = await agent.ask("dist_output", cell=label)
        assert_tells(first, "sent by AI agent test-agent", "mark")
        said = [line for line in first.splitlines() if line.startswith(BAR)]
        assert said == [r"| [0-1] first \u{202e}", "| [0-1] seen at"]
        mark = int(re.search(r"mark (\d+)", first)[1])
        waits = await agent.ask("dist_run", code="2", grant=token)
        assert_tells(waits, "waits: ", label)
        hold.release()
        wait_until(lambda: not cluster.outputs()[-1].is_running, 20, "the second cell")
        later = await agent.ask("dist_output", cell=label, since=mark)
        assert_tells(later, "has ended", "2 done")
        assert ("later" in later, "first" in later) == (True, False)
        assert "SyntaxError" in await agent.refused("dist_run", code="1 +", grant=token)

    converse(talk)
    assert {cell.by for cell in cluster.outputs()} == {"AI agent test-agent"}


class Task(mcp.types.Result):
    """A task, as the extension has it on the wire."""

    result_type: Literal["task"]
    task_id: str = Field(alias="taskId")
    status: str
    status_message: str = Field(alias="statusMessage")


class TasksKnown(ClientExtension):
    """A client that knows tasks: their calls return when they have ended."""

    identifier = "io.modelcontextprotocol/tasks"

    def claims(self):
        return [ResultClaim(result_type="task", model=Task, resolve=self.resolve)]

    async def resolve(self, task, context):
        ended = await end_of(context.session, task.task_id)
        return mcp.types.CallToolResult.model_validate(ended["result"])


TaskRequest = mcp.types.Request[dict[str, str], str]


async def ask_of_task(session, method, task_id):
    """Ask one of the methods of the extension; gives the fields of the answer."""
    request = TaskRequest(method=f"tasks/{method}", params={"taskId": task_id})
    return (await session.send_request(request, Anything)).model_dump(by_alias=True)


async def end_of(session, task_id):
    """Ask after a task until it has ended."""
    while (seen := await ask_of_task(session, "get", task_id))["status"] == "working":
        assert (seen["taskId"], seen["ttlMs"]) == (task_id, None)
        await asyncio.sleep(0.05)
    return seen


@pytest.mark.slow
def test_a_cell_that_outlasts_its_call_is_a_task_for_clients_that_know_them(start, hold):
    cluster = start("localhost:2", name="demo")
    token = cluster.allow_agents("run", for_s=60).token
    code = hold("print('first')", "print('later')")

    async def talk(agent):
        quick = await agent.ask("dist_run", code="print(6 * 7)", grant=token)
        assert_tells(quick, "| [0-1] 42")
        session = agent.client.session
        going, waiting = [
            await session.call_tool("dist_run", {"code": each, "grant": token}, allow_claimed=True)
            for each in (code, "1")
        ]
        assert (going.status, "In[10002]" in going.status_message) == ("working", True)
        noted = await ask_of_task(session, "update", waiting.task_id)
        assert noted["resultType"] == "complete"
        await ask_of_task(session, "cancel", waiting.task_id)
        assert (await end_of(session, waiting.task_id))["status"] == "cancelled"
        hold.release()
        ended = await end_of(session, going.task_id)
        assert (ended["status"], ended["result"]["isError"]) == ("completed", False)
        said = ended["result"]["content"][0]["text"]
        assert_tells(said, "In[10002]", "has ended")
        assert_tells(said, "| [0-1] later")
        failing = await agent.refused(
            "dist_run", code="import time; time.sleep(1); 1 / 0", grant=token
        )
        assert "ZeroDivisionError" in failing
        with pytest.raises(mcp.MCPError) as unknown:
            await ask_of_task(session, "get", "nonsense")
        assert unknown.value.code == mcp.types.INVALID_PARAMS

    converse(talk, extensions=[TasksKnown()])

    async def ask_without(agent):
        with pytest.raises(mcp.MCPError) as missing:
            await ask_of_task(agent.client.session, "get", "nonsense")
        assert missing.value.code == mcp.types.MISSING_REQUIRED_CLIENT_CAPABILITY

    converse(ask_without)


def test_a_lost_rank_is_explained_and_healed_by_a_grant(start):
    cluster = start("localhost:2", name="demo")
    token = cluster.allow_agents("heal", for_s=60).token
    os.kill(cluster.topology().engines[1].pid, signal.SIGKILL)
    wait_until(lambda: "lost" in cluster.status().ranks.values(), 20, "the loss")

    async def talk(agent):
        assert_tells(await agent.ask("dist_explain"), "rank 1 is lost")
        assert_tells(await agent.ask("dist_heal", grant=token), "healed")

    converse(talk)
    assert cluster.run("rank").ok


@pytest.mark.slow
def test_a_cluster_that_is_gone_is_said_to_be_and_another_ones_grant_is_none(start):
    gone, other = start("localhost:1", name="gone"), start("localhost:1", name="other")
    token = gone.allow_agents("run", for_s=60).token

    async def talk(agent):
        assert "NotAllowed" in await agent.refused(
            "dist_run", code="1", grant=token, cluster="other"
        )
        assert_tells(await agent.refused("dist_status"), "gone", "other")
        assert "gone" in await agent.ask("dist_status", cluster="gone")
        gone.stop()
        assert_tells(await agent.refused("dist_status", cluster="gone"), "NoCluster", "other")
        assert "other" in await agent.ask("dist_status")

    converse(talk)
    assert other.run("1").ok


@pytest.mark.slow
def test_many_calls_at_once_are_refused_and_harm_nobody(start):
    cluster = start("localhost:1", name="demo")

    async def talk(agent):
        calls = [agent.call("dist_explain") for _ in range(300)]
        return await asyncio.gather(*calls)

    answers = converse(talk)
    refused = [text for is_error, text in answers if is_error]
    assert len(answers) - len(refused) <= 5 * MOST_CALLS
    assert refused
    assert all("TooManyCalls" in text for text in refused)
    assert cluster.run("1").ok


@pytest.mark.slow
def test_an_agent_that_leaves_ends_no_cell(start):
    cluster = start("localhost:1", name="demo")
    token = cluster.allow_agents("run", for_s=60).token

    async def talk(agent):
        await agent.ask("dist_run", code="import time; time.sleep(1.5); print('end')", grant=token)

    converse(talk)
    seen = Cluster.visit("demo")
    try:
        wait_until(lambda: not seen.outputs()[-1].is_running, 20, "the end of the cell")
        assert seen.replay().result[0].stdout == "end\n"
    finally:
        seen.detach()


@pytest.fixture
def jupyter(home, tmp_path):
    """The URL of Jupyter's own MCP server, in a Jupyter Server that has found our tools."""
    apart = os.environ.get("JUPYTER_DIST_SERVER_MCP", "")  # see .ci/run
    if not apart and find_spec("jupyter_server_mcp") is None:
        pytest.skip("jupyter-server-mcp is not installed")
    paths = [*filter(None, [apart]), *sys.path]
    if not metadata.entry_points(group="jupyter_server_mcp.tools", name="jupyter-dist"):
        facts = tmp_path / "site" / "found_tools-0.dist-info"  # this package is not installed anew
        facts.mkdir(parents=True)
        (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: found-tools\nVersion: 0\n")
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        [(name, value)] = project["entry-points"]["jupyter_server_mcp.tools"].items()
        (facts / "entry_points.txt").write_text(f"[jupyter_server_mcp.tools]\n{name} = {value}\n")
        paths.append(str(facts.parent))
    words = ["--no-browser", "--port=0", "--allow-root", f"--ServerApp.root_dir={tmp_path}"]
    words += ["--ServerApp.jpserver_extensions={'jupyter_server_mcp': True}"]
    words += ["--MCPExtensionApp.mcp_port=0", f"--ServerApp.cookie_secret_file={tmp_path}/secret"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "JUPYTER_CONFIG_DIR": str(tmp_path)}
    log = tmp_path / "server.log"
    with log.open("w") as file:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyter_server", *words], env=env, stderr=file, stdout=file
        )
    runtime = Path(os.environ["JUPYTER_RUNTIME_DIR"])
    try:
        [info] = wait_until(lambda: [*runtime.glob("jpserver-mcp-*.json")], 60, "the MCP server")
        yield json.loads(info.read_text())["url"]
    finally:
        server.terminate()
        server.wait(30)


@pytest.mark.slow
def test_jupyters_own_server_has_the_same_tools_and_asks_for_the_same_grant(start, jupyter):
    cluster = start("localhost:2", name="demo")
    token = cluster.allow_agents("run", for_s=60).token

    async def talk():
        async with mcp.Client(jupyter) as client:
            agent = Agent(client)
            assert_tells(await agent.ask("dist_status"), "cluster demo", "idle")
            assert "NotAllowed" in await agent.refused("dist_run", code="1", grant="")
            assert_tells(await agent.ask("dist_run", code="print(6 * 7)", grant=token), "| ", "42")

    asyncio.run(talk())
    assert cluster.outputs()[-1].by == "an AI agent"
