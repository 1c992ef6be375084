"""People at terminals and notebooks: they see what ranks ask, and type."""

import sys

import pexpect
import pytest

from tests.kernels import start_new_kernel

PROGRAM = """
from jupyter_dist import Cluster
from jupyter_dist.views.cell.cell_output import CellOutputView
cluster = Cluster.visit({name!r})
view = CellOutputView(world_size=4)
result = cluster.run({code!r}, watcher=view, **{options!r})
view.finish(result)
print("ENDED", *[each.value_repr or each.status for each in result])
"""
PATIENCE_S = 30


@pytest.fixture
def spawn():
    """Run a program in a terminal of its own; killed in the end."""
    spawned = []

    def run(*words):
        spawned.append(
            pexpect.spawn(sys.executable, list(words), timeout=PATIENCE_S, encoding="utf-8")
        )
        return spawned[-1]

    yield run
    for each in spawned:
        each.close(force=True)


@pytest.fixture
def terminal(spawn, cluster):
    """Run a cell from a terminal, which writes `ENDED`, and of each rank the value or status."""

    def run(code, **options):
        return spawn("-c", PROGRAM.format(name=cluster.name, code=code, options=options))

    return run


def ended(terminal):
    """Wait until the cell has ended; give what is told of each rank."""
    terminal.expect(r"ENDED (.*?)\r\n")
    return terminal.match[1].split(" ")


@pytest.fixture
def kernel(cluster):
    """Run cells in a kernel that drives the cluster; gives the text of what they show."""
    manager, client = start_new_kernel()

    def run(code, answer=None):
        shown = []

        def on_output(message):
            content = message["content"]
            shown.append(content.get("text") or content.get("evalue") or "")

        def on_question(message):
            shown.append(message["content"]["prompt"])
            client.input(answer)

        options = {"allow_stdin": answer is not None, "stdin_hook": on_question}
        client.execute_interactive(code, timeout=PATIENCE_S, output_hook=on_output, **options)
        return "".join(shown)

    run(f"%load_ext jupyter_dist\n%dist_attach {cluster.name} --take-over")
    yield run
    client.stop_channels()
    manager.shutdown_kernel(now=True)
