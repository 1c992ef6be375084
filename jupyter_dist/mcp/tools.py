"""The tools: functions of plain text and numbers, whose docstrings tell an agent when to use them.

What they look at is the public API of a cluster, connected as an AI agent: the coordinator refuses
whatever no person has allowed. None starts, stops or takes over a cluster.
"""

import functools
from collections.abc import Callable
from inspect import Signature, signature
from typing import ParamSpec

from jupyter_dist.errors import DistError
from jupyter_dist.mcp.acting import begin_cell, checkpoint_ranks, heal_ranks, interrupt_ranks
from jupyter_dist.mcp.answers import answer, clean, data
from jupyter_dist.mcp.call_limit import CallLimit
from jupyter_dist.mcp.guide import read_guide
from jupyter_dist.mcp.output import tell_output
from jupyter_dist.mcp.visits import describe, visit

Given = ParamSpec("Given")
_LIMIT = CallLimit()
MOST_CALLS_SHOWN = 50
MOST_VALUE = 4000
"""Characters of one rank's value."""


def tool(function: Callable[Given, str]) -> Callable[Given, str]:
    """Count the calls of a tool, and let what it raises be read safely."""
    annotations = function.__annotations__

    @functools.wraps(function)
    def call(*given: Given.args, **named: Given.kwargs) -> str:
        try:
            _LIMIT.take()
            return function(*given, **named)
        except (DistError, SyntaxError) as problem:
            raise DistError(f"{type(problem).__name__}: {clean(str(problem))}") from None

    # A server that knows the type of what is returned sends it twice, as text and as an object.
    call.__annotations__ = {key: kind for key, kind in annotations.items() if key != "return"}
    call.__signature__ = signature(function).replace(return_annotation=Signature.empty)  # type: ignore[attr-defined]
    return call


@tool
def dist_guide() -> str:
    """Return how to find out, in ten steps, why a cell on a cluster hangs or has failed.

    Read it once before you use the other dist_ tools.
    """
    return read_guide()


@tool
def dist_clusters() -> str:
    """List the clusters of this user on this machine: name, state, ranks, hosts, owner, age.

    The name is what other tools take as `cluster`; with one cluster it can be left out.
    """
    from jupyter_dist.cluster.running import list_clusters, write_clusters

    clusters = list_clusters()
    if not clusters:
        return answer("no cluster runs: a person starts one, in a notebook with %dist_start")
    return answer(f"{len(clusters)} running", clean(write_clusters(clusters)).rstrip())


@tool
def dist_status(cluster: str = "") -> str:
    """Show each rank of a cluster: its host, state, process, memory, and the cell that it runs.

    Also which grants a person has given to AI agents, and who owns the cluster.
    """
    from jupyter_dist.cluster.grants.giving import write_grants

    with visit(cluster) as seen:
        status, grants = seen.status(), seen.grants()
        owner = f"owner: {clean(seen.owner) or 'none'}"
    told = data(str(status), keep="head")
    return answer(describe(status.topology), owner, clean(write_grants(grants)), told)


@tool
def dist_explain(cluster: str = "") -> str:
    """Say in one sentence what is the matter with the running cell, and how ranks were lost.

    Ask this first when a cell seems to hang or a rank is gone: it names who waits for whom, in
    which call, at which line, and what can be done. Ranks may be busy or stuck meanwhile.
    """
    with visit(cluster) as seen:
        verdict, topology = seen.explain(), seen.topology()
    return answer(describe(topology), data(verdict))


@tool
def dist_stacks(cluster: str = "", ranks: str = "", native: bool = False) -> str:
    """Show what ranks are doing now, innermost call last; ranks with the same stack together.

    `ranks` as "0,2-3" (default: all). A rank whose interpreter does not answer is looked at from
    outside. `native` shows calls of C and C++ too, where py-spy is installed, and takes longer.
    """
    from jupyter_dist.views.tables.stacks_table import stacks_text

    with visit(cluster) as seen:
        text, topology = stacks_text(seen.stacks(ranks or None, native=native)), seen.topology()
    return answer(describe(topology), data(text, keep="head", more=": ask for fewer `ranks`"))


@tool
def dist_who(cluster: str = "", names: str = "", ranks: str = "") -> str:
    """List variables of ranks: type, shape, dtype, memory, value; ▶ marks what differs.

    `names` as "loss w*" (default: all), `ranks` as "0,2-3". Ranks may be busy meanwhile. Use it to
    see which rank has another value, dtype or shape than the others, or lacks a name.
    """
    from jupyter_dist.views.tables.variables_table import names_text

    with visit(cluster) as seen:
        found, topology = seen.who(names.split(), ranks or None), seen.topology()
    return answer(describe(topology), data(names_text(found), keep="head", more=": give `names`"))


@tool
def dist_value(place: str, cluster: str = "", ranks: str = "", characters: int = 1000) -> str:
    """Show a part of a variable on ranks: its type, and its value up to so many characters.

    `place` is a name with attributes, numbers, texts and slices, as "w[:10]",
    "state['loss'][-1]" or "config.lr"; calls and sums are not accepted, as nothing is run for it.
    Of arrays also the extremes and how many numbers are NaN or infinite. Ranks may be busy.
    """
    with visit(cluster) as seen:
        most = max(1, min(characters, MOST_VALUE))
        found = seen.show_values(place, ranks or None, most_characters=most)
        topology = seen.topology()
    head = f"{place} on {describe(topology)}"
    return answer(head, data(str(found), keep="head", more=": ask for a slice, or fewer `ranks`"))


@tool
def dist_collectives(cluster: str = "", last: int = 10) -> str:
    """Show the last collective calls of all ranks side by side, at which line each was made.

    ▶ marks the first place where ranks called different things or some did not come. Stuck and
    lost ranks are included.
    """
    from jupyter_dist.views.tables.collectives_table import collectives_text

    with visit(cluster) as seen:
        count = max(1, min(last, MOST_CALLS_SHOWN))
        table, topology = seen.collectives(count).table(count), seen.topology()
    return answer(describe(topology), data(collectives_text(table)))


@tool
def dist_output(cluster: str = "", cell: str = "", since: int = -1, ranks: str = "") -> str:
    """Show what a cell has said and how it ended on each rank, with a mark to ask on from.

    `cell` as "3" or "In[3]" (default: the last one). Without `since` you get the newest lines; with
    the mark of the last answer, what came after it. `ranks` as "0,2-3" shows only what these said.
    """
    return tell_output(cluster, cell, since, ranks)


@tool
def dist_run(
    code: str, grant: str, cluster: str = "", ranks: str = "", timeout_s: float = 600.0
) -> str:
    """Run code on the ranks, if a person has allowed it; returns the cell's number at once.

    `grant` is the token that the person was told by %dist_allow agent. The cell goes on when this
    call has returned: dist_output shows what it says and how it ended. After `timeout_s` seconds it
    is interrupted. The person sees in the notebook that you ran it.
    """
    return begin_cell(code, grant, cluster, ranks, timeout_s)


@tool
def dist_interrupt(grant: str, cluster: str = "", ranks: str = "") -> str:
    """Interrupt the running cell as Ctrl-C would, if a person has allowed it.

    Ranks keep everything they have. `ranks` as "0,2-3" (default: all).
    """
    return interrupt_ranks(grant, cluster, ranks)


@tool
def dist_heal(grant: str, cluster: str = "", ranks: str = "") -> str:
    """Replace lost ranks by new ones, if a person has allowed it; the others keep what they have.

    With `ranks` as "2" also one that lives, and that no interrupt reaches: it is killed first. It
    waits for a running cell to end; when it takes longer, call it again to learn how it ended.
    """
    return heal_ranks(grant, cluster, ranks)


@tool
def dist_checkpoint(name: str, grant: str, cluster: str = "", variables: str = "") -> str:
    """Save variables of all ranks under a name, if a person has allowed it.

    `variables` as "weights step" (default: those that are usually saved). When it takes longer,
    call it again to learn how it ended.
    """
    return checkpoint_ranks(name, grant, cluster, variables)


TOOLS = (
    dist_guide,
    dist_clusters,
    dist_status,
    dist_explain,
    dist_stacks,
    dist_who,
    dist_value,
    dist_collectives,
    dist_output,
    dist_run,
    dist_interrupt,
    dist_heal,
    dist_checkpoint,
)
"""In the order in which an agent gets them."""
ACTING = (dist_run, dist_interrupt, dist_heal, dist_checkpoint)
"""Those that change something, and want a grant."""


def name_tools() -> list[str]:
    """Return the tools as Jupyter's MCP server wants them told: `module:function`."""
    return [f"{__name__}:{each.__name__}" for each in TOOLS]
