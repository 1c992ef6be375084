"""Calls of torch wait as long as a peer is in the debugger."""

import pexpect
import pytest

from .people import ended
from .results import values

pytestmark = pytest.mark.slow
TIMEOUT_S = 4.0
PROMPT = r"rank 1 at [^\r\n]*: [(]Pdb[)] "
STOP = "if rank == 1: breakpoint()\n"


@pytest.fixture
def cluster(start, tmp_path):
    """Two ranks whose collectives have little time."""
    spec = tmp_path / "cluster.toml"
    spec.write_text(f'collective_timeout = "{TIMEOUT_S:g}s"\n')
    return start("localhost:2", spec=spec, timeout_s=60.0)


def stay(person):
    """Stop for longer than a collective may wait, then go on."""
    person.expect(PROMPT)
    person.expect(pexpect.TIMEOUT, timeout=1.5 * TIMEOUT_S)
    person.sendline("c")


FORM = f"""\
import datetime, time, torch, torch.distributed as dist
given = datetime.timedelta(seconds={TIMEOUT_S})
dist.init_process_group("gloo", timeout=given)
backend = dist.group.WORLD._get_backend(torch.device("cpu"))
x = torch.ones(3)
"""
BEGIN_LATER = "while rank == 0 and backend.options._timeout == given: time.sleep(0.02)\n"
"""The call of the other rank begins as soon as its time-out is held."""


def test_calls_of_torch_that_begin_meanwhile_wait_for_a_rank_in_the_debugger(terminal, cluster):
    pytest.importorskip("torch")
    assert cluster.run(FORM).ok
    person = terminal(f"{STOP}{BEGIN_LATER}dist.all_reduce(x)\nx[0].item()")
    stay(person)
    assert ended(person)[:2] == ["2.0"] * 2
    assert values(cluster.run("backend.options._timeout == given")) == ["True"] * 2
