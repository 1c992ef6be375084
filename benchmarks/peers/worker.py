"""The process in which one contender lives: JSON commands in, JSON answers out, a line each.

    {"do": "start", "n": 8}                              -> {"value": 6.9}
    {"do": "run", "way": "%%px", "cell": "empty"}        -> {"value": 0.021}
    {"do": "push", "way": "DirectView", "mib": 64}       -> {"value": 0.8}
    {"do": "memory"}                                     -> {"value": {...}}
    {"do": "suffer", "story": "a_rank_raises", ...}      -> {"value": {...}}
    {"do": "stop"}                                       -> {"value": 0.4}

An answer has `error` (and `cannot` when the contender does not offer it) instead of `value` when
it went wrong. Clocks run here, next to the contender, so the pipe is not part of any figure.
"""

import json
import os
import sys
import time
import traceback
from importlib import import_module
from typing import Any, TextIO

from contender import MARKER, Contender, NotOfferedError

CONTENDERS = {
    "ours": "ours:Ours",
    "ours-magic": "ours:OursFromTheNotebook",
    "ipyparallel": "ipyparallel_peer:Ipyparallel",
    "ipyparallel-tuned": "ipyparallel_peer:TunedIpyparallel",
    "jupyter-distributed": "jupyter_distributed_peer:JupyterDistributed",
    "bare-zeromq": "bare_zeromq:BareZeroMQ",
    "ours-in-trouble": "ours_in_trouble:OursInTrouble",
    "ipyparallel-in-trouble": "ipyparallel_in_trouble:IpyparallelInTrouble",
    "jupyter-distributed-in-trouble": "jupyter_distributed_in_trouble:JupyterDistributedInTrouble",
}
PRINTED_LINES = 100
CELLS = {
    "empty": "x = 1",
    "printing": f"for i in range({PRINTED_LINES}): print('line', i, {MARKER!r})",
}


def main(name: str) -> None:
    """Serve commands until the pipe closes; then stop what runs."""
    commands, answers = _take_the_pipe()
    module, _, class_name = CONTENDERS[name.partition("@")[0]].partition(":")
    try:
        contender: Contender = getattr(import_module(module), class_name)()
    except Exception as error:
        _answer(answers, {"error": _explain(error)})
        return
    ways = {"run": contender.run_ways, "push": contender.push_ways, "pull": contender.pull_ways}
    _answer(answers, {"value": {"versions": contender.versions(), "ways": ways}})
    desk = Desk(contender)
    try:
        for line in commands:
            _answer(answers, desk.obey(json.loads(line)))
    finally:
        contender.stop()


class Desk:
    """Obeys one command after the other."""

    def __init__(self, contender: Contender) -> None:
        self.contender = contender
        self.n = 0

    def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """Do what the command says; what goes wrong becomes the answer."""
        try:
            return {"value": getattr(self, f"do_{command.pop('do')}")(**command)}
        except NotOfferedError as reason:
            return {"error": str(reason), "cannot": True}
        except Exception as error:
            traceback.print_exc()
            return {"error": _explain(error)}

    def do_start(self, n: int) -> float:
        self.n = n
        return self.contender.start(n)

    def do_run(self, way: str, cell: str, times: int) -> list[float]:
        seconds = []
        for _ in range(times):
            began = time.perf_counter()
            printed = self.contender.run(CELLS[cell], way)
            seconds.append(time.perf_counter() - began)
            if cell == "printing":
                self._check_printed(printed, way)
        return seconds

    def do_push(self, way: str, mib: int) -> float:
        import numpy as np

        array = np.arange(mib << 17, dtype=np.float64)
        began = time.perf_counter()
        self.contender.push(array, way)
        seconds = time.perf_counter() - began
        there = f"pushed.nbytes == {array.nbytes} and pushed[-1] == {array[-1]!r}"
        there = there.replace("np.float64", "float")
        self.contender.run(f"assert {there}; del pushed", self.contender.run_ways[0])
        return seconds

    def do_pull(self, way: str, mib: int) -> float:
        make = f"import numpy as np; pulled = np.arange({mib << 17}, dtype=np.float64)"
        self.contender.run(make, self.contender.run_ways[0])
        began = time.perf_counter()
        pulled = self.contender.pull(way)
        seconds = time.perf_counter() - began
        assert [(each.size, each[-1]) for each in pulled] == [(mib << 17, (mib << 17) - 1)] * self.n
        self.contender.run("del pulled", self.contender.run_ways[0])
        return seconds

    def do_memory(self) -> dict[str, Any]:
        memory = self.contender.memory()
        return {
            "engine": memory.engine_bytes,
            "everything": memory.all_bytes,
            "parts": memory.parts_bytes,
        }

    def do_suffer(self, story: str, **circumstances: Any) -> dict[str, Any]:
        from trouble import STORIES, Trouble

        assert isinstance(self.contender, Trouble)
        return STORIES[story](self.contender, **circumstances)

    def do_stop(self) -> float:
        began = time.perf_counter()
        self.contender.stop()
        return time.perf_counter() - began

    def _check_printed(self, printed: str, way: str) -> None:
        """A way that loses lines is not faster, it is wrong."""
        lines = printed.count(MARKER)
        once = way in self.contender.collapses_output
        least = PRINTED_LINES * (1 if once else self.n)
        if not least <= lines <= PRINTED_LINES * self.n:
            raise RuntimeError(f"{way} showed {lines} lines, {least} were printed")


def _take_the_pipe() -> tuple[TextIO, TextIO]:
    """Keep the pipe for ourselves: whatever else reads or writes gets nothing and the log."""
    commands = os.fdopen(os.dup(0), "r")
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return commands, answers


def _answer(answers: TextIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")


def _explain(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


if __name__ == "__main__":
    main(sys.argv[1])
