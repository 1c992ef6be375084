"""How long stops and steps of all ranks take, and whether cells are slower after the debugger.

Two clusters of the same size run empty cells in turn; then the ranks of one stop at a breakpoint,
step and go on, and both run cells in turn again. Printed are the time from the breakpoint to the
prompt for all ranks, that of a step of all, and the ratio of cells before and after.

python benchmarks/debugger.py [--hosts 2]

With --hosts the ranks are shared out to hosts with an sshd each: network namespaces of this
machine (tests/hosts/lab), which share its cores and its clock; that needs root.
"""

import argparse
import contextlib
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "hosts"))

import pexpect  # noqa: E402
from lab import HostsLab  # noqa: E402  (the lab of the tests)
from machine import describe_machine  # noqa: E402

from jupyter_dist import Cluster  # noqa: E402
from jupyter_dist.model.spec.cluster_spec import HostSpec  # noqa: E402
from jupyter_dist.views.cell.cell_output import CellOutputView  # noqa: E402

RANKS = 4
CELLS = 2000
STEPS = 40
PROMPT = rf"ranks 0-{RANKS - 1} at [^\r\n]*: [(]Pdb[)] "
STOP = "import time\nhit_s = time.time()\nbreakpoint()\n" + (STEPS + 1) * "x = 1\n"


def measure(hosts: str | list[HostSpec]) -> None:
    """Be the process with a terminal: stop at a breakpoint between cells, print both ratios."""
    with (
        Cluster.start(hosts, name="stopped", timeout_s=120) as stopped,
        Cluster.start(hosts, name="plain", timeout_s=120) as plain,
    ):

        def compare() -> float:
            took_s: dict[str, list[float]] = {"stopped": [], "plain": []}
            for number in range(CELLS):
                pair = (stopped, plain) if number % 2 else (plain, stopped)
                for cluster in pair:
                    begin_s = time.perf_counter()
                    cluster.run("pass")
                    took_s[cluster.name].append(time.perf_counter() - begin_s)
            return median(took_s["stopped"]) / median(took_s["plain"])

        compare()
        before = compare()
        view = CellOutputView(world_size=RANKS)
        view.finish(stopped.run(STOP, watcher=view))
        after = compare()
    sys.stdout.write(
        f"CELLS over the other cluster: {before:.3f} before, {after:.3f} after: "
        f"{after / before:.3f} of before\n"
    )


@contextlib.contextmanager
def open_hosts(count: int) -> Iterator[list[str]]:
    """Yield the arguments for the process that measures: ssh and hosts; none for this machine."""
    if not count:
        yield []
        return
    names = [f"node{chr(ord('A') + number)}" for number in range(count)]
    with (
        tempfile.TemporaryDirectory(prefix="hosts-lab-") as folder,
        HostsLab(names, folder) as lab,
    ):
        yield [shlex.join(lab.ssh), *names]


def read_hosts(told: list[str]) -> str | list[HostSpec]:
    """Return the hosts that such arguments name."""
    if not told:
        return f"localhost:{RANKS}"
    ssh, *names = told
    slots = RANKS // len(names)
    return [HostSpec(name, slots, launcher="ssh", ssh=tuple(shlex.split(ssh))) for name in names]


def main() -> None:
    """Run that in a terminal, and type what a person would."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--hosts", type=int, choices=(0, 2, 4), default=0)
    count = parser.parse_args().hosts
    sys.stdout.write(f"{describe_machine()}\n")
    sys.stdout.write(f"{RANKS} ranks on {f'{count} hosts' if count else 'this machine'}\n")
    with open_hosts(count) as told:
        arguments = [__file__, "measure", *told]
        type_commands(pexpect.spawn(sys.executable, arguments, encoding="utf-8", timeout=180))


def type_commands(child: "pexpect.spawn[str]") -> None:
    """Step through the cell, and print how long that takes."""
    child.expect(PROMPT)
    prompted_s = time.time()
    child.sendline("p hit_s")
    child.expect(PROMPT)
    hits_s = [float(each) for each in re.findall(r"\d{10}\.\d+", child.before)]
    sys.stdout.write(
        f"prompt for {RANKS} ranks: {prompted_s - max(hits_s):.2f} s after the last hit\n"
    )
    steps_s = []
    for _ in range(STEPS):
        begin_s = time.perf_counter()
        child.sendline("n")
        child.expect(PROMPT)
        steps_s.append(time.perf_counter() - begin_s)
    sys.stdout.write(f"a step of all: {median(steps_s):.3f} s, longest {max(steps_s):.3f} s\n")
    child.sendline("c")
    child.expect(r"CELLS ([^\r\n]*)")
    sys.stdout.write(f"empty cells {child.match[1]}\n")
    child.expect(pexpect.EOF)


if __name__ == "__main__":
    measure(read_hosts(sys.argv[2:])) if sys.argv[1:2] == ["measure"] else main()
