import importlib
import inspect
import re
import tomllib

import pytest

from jupyter_dist.errors import DistError, NotAllowed
from jupyter_dist.mcp import tools
from jupyter_dist.mcp.call_limit import MOST_CALLS, CallLimit
from jupyter_dist.mcp.guide import read_guide, read_skill
from tests.architecture.sources import ROOT

GROUP = "jupyter_server_mcp.tools"


@pytest.fixture(autouse=True)
def limit(monkeypatch):
    monkeypatch.setattr(tools, "_LIMIT", CallLimit())


def discover(value):
    """Load tools as jupyter_server_mcp 0.4 does: an entry point that gives `module:function`s."""
    module, _, name = value.partition(":")
    specs = getattr(importlib.import_module(module), name)()
    assert isinstance(specs, list)
    for spec in specs:
        module, function = spec.rsplit(":", 1)
        yield getattr(importlib.import_module(module), function)


def test_jupyters_server_finds_every_tool():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [value] = project["entry-points"][GROUP].values()
    assert tuple(discover(value)) == tools.TOOLS


@pytest.mark.parametrize("each", tools.TOOLS, ids=lambda each: each.__name__)
def test_a_tool_describes_itself(each):
    assert each.__name__.startswith("dist_")
    assert 40 < len(inspect.getdoc(each)) < 700
    signature = inspect.signature(each)
    kinds = {parameter.annotation for parameter in signature.parameters.values()}
    assert kinds <= {str, int, float, bool}
    assert signature.return_annotation is inspect.Signature.empty, "it would be sent twice"


def test_what_changes_something_wants_a_grant_and_nothing_else_takes_one():
    wanting = [each for each in tools.TOOLS if "grant" in inspect.signature(each).parameters]
    assert tuple(wanting) == tools.ACTING
    assert all(
        inspect.signature(each).parameters["grant"].default is inspect.Parameter.empty
        for each in wanting
    )


def test_no_tool_starts_stops_or_takes_over():
    words = "_".join(each.__name__ for each in tools.TOOLS).split("_")
    assert not {"start", "stop", "shrink", "attach", "take", "push", "sync"} & set(words)


def test_errors_are_ours_and_can_be_read_safely():
    @tools.tool
    def refuse() -> str:
        raise NotAllowed("no\x1b[2J \u202e")

    with pytest.raises(DistError, match=r"NotAllowed: no \\u\{202e\}"):
        refuse()


def test_calls_are_counted_for_all_tools_together():
    for _ in range(MOST_CALLS - 1):
        tools.dist_guide()
    tools.dist_clusters()
    with pytest.raises(DistError, match="TooManyCalls"):
        tools.dist_guide()


def test_the_guide_names_only_what_there_is():
    names = {each.__name__ for each in tools.TOOLS}
    named = set(re.findall(r"`(dist_\w+)", read_guide()))
    assert named == names - {"dist_guide"}
    for name, given in re.findall(r"(dist_\w+)\(([^)]*)\)", read_guide()):
        accepted = inspect.signature(getattr(tools, name)).parameters
        keywords = re.findall(r"(\w+)=", given)
        assert set(keywords) <= accepted.keys(), name


def test_the_guide_is_short_and_has_ten_steps():
    assert len(read_guide()) < 6000
    assert re.findall(r"^(\d+)\. ", read_guide(), re.MULTILINE) == [str(n) for n in range(1, 11)]
    assert "%dist_allow agent --for" not in read_guide(), "how a person grants is for people"


def test_the_skill_is_a_file_that_clients_know():
    head, matter, text = read_skill().split("---\n", 2)
    assert (head, text.strip()) == ("", read_guide().strip())
    assert matter.startswith("name: jupyter-dist\ndescription: ")
