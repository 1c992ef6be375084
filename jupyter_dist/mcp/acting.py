"""What an agent may do by a grant; the coordinator looks whether it has one."""

from contextlib import suppress

from jupyter_dist.cluster.checkpoints import saving
from jupyter_dist.errors import CellFailed, UsageError
from jupyter_dist.mcp.answers import answer, data
from jupyter_dist.mcp.errands import ERRANDS, LastWord
from jupyter_dist.mcp.output import tell_output, tell_waiting
from jupyter_dist.mcp.visits import connect, visit
from jupyter_dist.model.hosts.rank import name_ranks

QUICK_S = 0.5
"""A cell that has ended by then comes with what it has said."""
PATIENCE_S = 20.0
"""Clients of MCP give a call up after a minute or so."""
MOST_CODE = 100_000


def begin_cell(code: str, grant: str, cluster: str, ranks: str, timeout_s: float) -> str:
    """Send a cell; tell its number, and what it has said if it is quick. Raise what refuses it."""
    if not code.strip() or len(code) > MOST_CODE:
        raise UsageError(f"code of {len(code)} characters is not accepted: 1 to {MOST_CODE}.")
    seen = connect(cluster, grant)
    said = LastWord(seen)
    try:
        number = ERRANDS.new_label(seen)
        cell = seen.run_in_background(code, ranks or None, timeout_s, label=number, watcher=said)
    except BaseException:
        seen.detach()
        raise
    label = f"In[{number}]"
    with suppress(TimeoutError, CellFailed):
        cell.wait(QUICK_S)
    name = seen.name
    if cell.is_done:
        return tell_output(name, label, 0, "")
    ERRANDS.keep(name, label, cell, said)
    how = f'dist_output(cluster="{name}", cell="{label}") tells more'
    with visit(name) as looking:  # the other connection ends with the cell
        waits = tell_waiting(looking, label)
    return waits or answer(f"{label} runs on cluster {name}; {how}")


def interrupt_ranks(grant: str, cluster: str, ranks: str) -> str:
    """Interrupt what runs; tell which ranks were busy."""
    with visit(cluster, grant) as seen:
        reached = seen.interrupt(ranks or None)
        name = seen.name
    told = f"interrupted {name_ranks(reached)}" if reached else "nothing was running"
    return answer(f"cluster {name}: {told}", "dist_output tells how the cell has ended")


def heal_ranks(grant: str, cluster: str, ranks: str) -> str:
    """Begin to replace ranks, or tell how that has ended."""
    with visit(cluster, grant) as seen:
        name = seen.name

    def heal() -> str:
        with visit(name, grant) as seen:
            return str(seen.heal(ranks or None))

    told = ERRANDS.begin(name, "heal", heal, PATIENCE_S)
    goes_on = "goes on, or waits for the running cell; call dist_heal again to learn how it ended"
    return answer(f"cluster {name}: {'healed' if told else goes_on}", data(told) if told else "")


def checkpoint_ranks(name: str, grant: str, cluster: str, variables: str) -> str:
    """Begin to save variables, or tell how that has ended."""
    order = saving(name, variables.split())
    with visit(cluster, grant) as seen:
        of, number = seen.name, ERRANDS.new_label(seen)

    def save() -> str:
        with visit(of, grant) as seen:
            seen.run_command(order, label=number).raise_first()
        return tell_output(of, f"In[{number}]", 0, "")

    told = ERRANDS.begin(of, f"checkpoint {name}", save, PATIENCE_S)
    goes_on = f"cluster {of}: saving {name} goes on; call dist_checkpoint again to learn more"
    return told or answer(goes_on)
