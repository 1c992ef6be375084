"""What the output of a cell costs a notebook: bytes of messages, and time of the kernel's thread.

    python benchmarks/cell_output.py [--json FILE]

No cluster runs: events as 64 ranks send them go through the same view as in a notebook, on a clock
of their own, and each bundle that would go to the page is weighed. A redraw is put off when it
takes more than a tenth of the thread's time, with the real cost of each redraw.
"""

import time
from collections.abc import Callable
from typing import Any

from figures import publish, read_options
from machine import describe_machine

from jupyter_dist.protocol.messages import Output, RankFinished
from jupyter_dist.views.cell.cell_output import CellOutputView

LINES = 50
TICK_S = 0.05
STORIES: dict[str, Callable[[int, int], str]] = {
    "same": lambda _, line: f"line {line} of the story as it is told",
    "one differs": lambda rank, line: f"line {line} of the story{' but here' * (rank == 3)}",
    "all differ": lambda rank, line: f"rank {rank}, line {line}: loss {rank * line / 7:.4f}",
    "all differ, long": lambda rank, line: f"rank {rank}, line {line}: " + "x" * 400,
}


class Page:
    """Weighs what a display is given."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, bundle: dict[str, str], /, *, raw: bool, display_id: bool) -> "Page":
        assert raw
        assert display_id
        return self.update(bundle, raw=raw)

    def update(self, bundle: dict[str, str], *, raw: bool) -> "Page":
        assert raw
        self.sizes.append(sum(len(text.encode()) for text in bundle.values()))
        return self


class Run:
    """One cell of many ranks on a clock of its own; `busy_s` is what it cost the thread."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.page = Page()
        self.now_s = 0.0
        self.busy_s = 0.0
        self.longest_tick_s = 0.0
        self.view = CellOutputView(world_size=ranks, display=self.page, clock=lambda: self.now_s)

    def say(self, output: Callable[[int], Output]) -> None:
        said = [(rank, (output(rank),)) for rank in range(self.ranks)]
        self._measure(lambda: [self.view.on_output([rank], outputs) for rank, outputs in said])

    def wait(self, seconds: float) -> None:
        ticks = max(1, round(seconds / TICK_S))
        for _ in range(ticks):
            self.now_s += seconds / ticks
            took_s = self._measure(self.view.on_tick)
            self.longest_tick_s = max(self.longest_tick_s, took_s)

    def finish(self) -> dict[str, Any]:
        for rank in range(self.ranks):
            self.view.on_finished(RankFinished(rank, "ok", self.now_s))
        busy_s = self.busy_s
        self._measure(lambda: self.view.finish(None))
        sizes = self.page.sizes
        return {
            "messages": len(sizes),
            "megabytes": round(sum(sizes) / 1e6, 3),
            "saved_megabytes": round(sizes[-1] / 1e6, 3),
            "thread_percent": round(100 * busy_s / self.now_s, 1),
            "longest_tick_ms": round(1000 * self.longest_tick_s, 1),
            "finish_ms": round(1000 * (self.busy_s - busy_s), 1),
        }

    def _measure(self, call: Callable[[], object]) -> float:
        started_s = time.thread_time()
        call()
        took_s = time.thread_time() - started_s
        self.busy_s += took_s
        return took_s


def measure_lines(
    story: Callable[[int, int], str], step_s: float, ranks: int = 64
) -> dict[str, Any]:
    run = Run(ranks)
    for line in range(LINES):
        run.say(lambda rank, line=line: Output("stdout", story(rank, line) + "\n"))
        run.wait(step_s)
    return run.finish()


def measure_flood(ranks: int = 64, seconds: float = 10.0) -> dict[str, Any]:
    """Every rank says 40 lines in each twentieth of a second: 51,200 lines a second in all."""
    run = Run(ranks)
    while run.now_s < seconds:
        step = round(run.now_s / TICK_S)
        run.say(
            lambda rank, step=step: Output(
                "stdout", "".join(f"rank {rank} says {step}.{line}\n" for line in range(40))
            )
        )
        run.wait(TICK_S)
    return run.finish()


def measure_bars(ranks: int = 64, seconds: float = 10.0) -> dict[str, Any]:
    """Every rank moves two bars, five times a second."""
    run = Run(ranks)
    while run.now_s < seconds:
        for bar in (1, 2):
            done = run.now_s / seconds
            own = {"bar": bar, "description": f"bar {bar}", "unit": "it", "total": 1000}
            run.say(
                lambda rank, own=own, done=done: Output(
                    "progress",
                    data={
                        **own, "n": int(1000 * done) + rank % 7, "elapsed_s": run.now_s,
                        "is_closed": False, "place": "In_1:2",
                    },
                )
            )  # fmt: skip
        run.wait(0.2)
    return run.finish()


def main() -> None:
    options = read_options(__doc__)
    found = {
        f"64 ranks x {LINES} lines, {name}, a line each {step_s} s": measure_lines(story, step_s)
        for name, story in STORIES.items()
        for step_s in (0.02, 0.1, 0.5)
    }
    found["64 ranks, 51,200 lines a second for 10 s"] = measure_flood()
    found["64 ranks, two bars each for 10 s"] = measure_bars()
    publish(options, found, digits=3, machine=describe_machine())


if __name__ == "__main__":
    main()
