"""What our tools say of a program while it runs: the answer that is scored, word for word."""

import threading
import time
from contextlib import suppress

from jobs import RANKS, Job

from jupyter_dist import Cluster
from jupyter_dist.cluster.result import SpmdResult
from jupyter_dist.errors import CellFailed, DistError
from jupyter_dist.views.cell.cell_output import CellOutputView
from jupyter_dist.views.cell.terminal import Terminal

PATIENCE_S = 40.0
"""So long a word about a program is waited for, its imports on a busy machine included;"""
READS_S = 3.0
"""and, after the first one, for a better one."""
ENDS_S = 2.0
"""So long what is interrupted may take to remove its files."""
HEALTHY_S = 60.0
"""Healthy programs are waited for."""


class Screen(CellOutputView):
    """What a terminal shows of a program; other threads wait for notes and for the end."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.news = threading.Event()
        super().__init__(world_size=RANKS, display=Terminal(self._write, is_tty=False))

    def _write(self, text: str) -> None:
        self.text.append(text)

    def on_note(self, text: str) -> None:
        """Take in one sentence for the person."""
        super().on_note(text)
        self.news.set()


def ask_tools(job: Job) -> tuple[str, float]:
    """Run a program on ranks of its own; return all that was said, and when the first word came.

    That is what stands on the screen, and what `jupyter dist explain` says if it still runs.
    """
    with Cluster.start(f"localhost:{RANKS}", keep_s=0.0) as cluster:
        screen, began_s = Screen(), time.monotonic()
        running = threading.Thread(target=_run, args=(cluster, job, screen), daemon=True)
        running.start()
        screen.news.wait(PATIENCE_S)
        first_s = time.monotonic() - began_s
        running.join(HEALTHY_S if job.is_healthy else READS_S)
        told = list(screen.text)
        if running.is_alive():
            told.append(f"{cluster.explain()}\n")
            cluster.interrupt()  # programs remove their files
            running.join(ENDS_S)
    running.join()
    return "".join(told), first_s


def _run(cluster: Cluster, job: Job, screen: Screen) -> None:
    """Run a program; show how it ends, unless the cluster is stopped before."""
    with suppress(DistError):
        result: SpmdResult = cluster.run_program(job.path, watcher=screen)
        screen.finish(result)
        try:
            result.raise_first()
        except CellFailed as failure:
            screen.text.append(f"{type(failure).__name__}: {failure}\n")
        screen.news.set()
