"""Jobs that begin again when a rank is lost, with new ranks or with fewer."""

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from jupyter_dist.options.run_options import DEFAULT_RESTARTS

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster


class Outcome(msgspec.Struct, frozen=True):
    """How a job has ended."""

    status: int = 0
    problem: str = ""
    """What went wrong; empty: nothing."""
    is_lost: bool = False
    """A rank was lost."""

    def with_problem(self, problem: str) -> "Outcome":
        """Return one that has failed, with one thing more that went wrong."""
        told = "\n".join(filter(None, (self.problem, problem)))
        return Outcome(self.status or 1, told, self.is_lost)


def run_with_restarts(
    cluster: "Cluster",
    options: argparse.Namespace,
    run: Callable[[], Outcome],
    on_restart: Callable[[str], object],
) -> Outcome:
    """Run a job, and again after a loss, as often as is accepted; return how it has ended.

    `on_restart` is called with what went wrong before. Raise HealFailed, or what `shrink` raises.
    """
    outcome, left = run(), options.restarts or DEFAULT_RESTARTS
    while outcome.is_lost and options.on_loss in ("heal", "shrink") and left:
        on_restart(outcome.problem)
        _recover(cluster, options.on_loss)
        outcome, left = run(), left - 1
    return outcome


def _recover(cluster: "Cluster", on_loss: str) -> None:
    from jupyter_dist.views.cell.terminal import Terminal
    from jupyter_dist.views.stages.stage_view import StageView

    terminal = Terminal(sys.stderr.write, is_tty=sys.stderr.isatty())
    with StageView(display=terminal) as view:
        recover = cluster.heal if on_loss == "heal" else cluster.shrink
        recovered = recover(on_stage=view.on_stage)
    sys.stderr.write(f"{recovered}\n")
