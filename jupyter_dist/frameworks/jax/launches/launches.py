"""JAX's collectives on this rank: each launch of a program that spans ranks, from begin to end."""

import re
import threading
import time
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from jupyter_dist.errors import CollectiveMismatch, DistError, FrameworkError
from jupyter_dist.frameworks.framework import GRACE_S, Failure
from jupyter_dist.frameworks.gloo_sends import JAX_LIBRARY, end_lost_sends
from jupyter_dist.frameworks.gloo_sockets import GlooSockets
from jupyter_dist.frameworks.import_hooks import ImportHooks
from jupyter_dist.frameworks.jax.launches.in_flight import InFlight, Launch
from jupyter_dist.frameworks.jax.launches.refusals import (
    refuse_absent,
    refuse_broken,
    refuse_stale,
    refuse_strangers,
)
from jupyter_dist.frameworks.jax.private.dispatch import PrivateDispatch
from jupyter_dist.frameworks.jax.private.gloo_rendezvous import release_members
from jupyter_dist.frameworks.jax.private.programs import Program, is_in_broadcast
from jupyter_dist.frameworks.rank_context import RankContext
from jupyter_dist.model.ranks.user_errors import causes, error_text, is_of

NEWS_S = 3.0
"""A peer's death is felt before anybody tells of it; at most so long we wait to hear who it was."""
TORN_S = 1.0
"""So long a cell that has failed waits for what was torn to come to its end."""
STUCK_S = 2.0
"""A program that goes on for so long after its connections were torn will not end."""
TEAR_AGAIN_S = 1.0
"""What still waits then has been connected meanwhile, or gloo has lost it from sight."""
_OTHER_PROGRAM = ", compiled to another program"
"""What sets two calls apart that read the same."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.0002, 0.05
_KINDS = frozenset({"JaxRuntimeError", "XlaRuntimeError", "ValueError", "RuntimeError"})
"""By name: JAX need not be here. Depending on the operation gloo's errors become one of these."""
_WORDS = ("Gloo ", "NCCL ")
_MOST_CHARACTERS = 200
_REPEATED = re.compile(r"([^:]+: )\1+")
"""XLA says once for each program that came after it that it could not be run."""
_OF_BEFORE = (
    "this array was to come from a program of JAX that broke off in an earlier cell: it has no "
    "values. Run the cell that makes it again; JAX itself is formed."
)


class Launches:
    """Counts, records, compares, refuses and breaks off what this rank launches.

    `break_off`, `look` and `expect_cell` are for the link thread, all else for the main thread.
    """

    def __init__(self, context: RankContext, why_service_is_gone: Callable[[], str]) -> None:
        self._context = context
        self._why_service_is_gone = why_service_is_gone
        self._generation = 0
        self._met: set[object] = set()
        """Cliques of devices that have found each other in this generation."""
        self._counts: dict[tuple[int, ...], int] = {}
        """Programs that were launched in this generation, by the ranks that take part."""
        self.is_broken = False
        self.sockets = GlooSockets()
        self._rank_of_process: Sequence[int] = ()
        self._ranks: dict[tuple[int, ...], tuple[int, ...]] = {}
        """By processes of a program."""
        self._under_way = InFlight(lambda token, is_ok: context.end_call(token, is_ok=is_ok))
        self.failure: Failure | None = None
        """Of this cell: the first that was told."""
        self._torn_s: float | None = None
        """When connections were shut down in this cell first."""
        self._torn: frozenset[int] = frozenset()
        """What was under way when they were last, by token."""
        self._tear_again_s = 0.0
        self._releasing: threading.Thread | None = None
        self._last_failed: Launch | None = None
        self._broke_off = False
        """A launch of this cell has, whatever the cell makes of its error."""
        self._was_broken = False
        """Before this cell: it is not to blame."""

    def install(self, hooks: ImportHooks) -> None:
        """See what JAX launches from its import on."""
        PrivateDispatch(self._launch, self.sockets.watch, self._context.tell).install(hooks)

    def begin_generation(self, rank_of_process: Sequence[int]) -> None:
        """Begin to count; JAX's backends of before are gone, those of now are not made yet."""
        self._generation = self._context.generation
        self._counts.clear()
        self._met.clear()
        self.is_broken = self._was_broken = False
        self.sockets.forget()
        self._rank_of_process = tuple(rank_of_process)
        self._ranks.clear()
        self._under_way.end_all()
        self._under_way.failed = self._last_failed = self._torn_s = None

    def end_mesh(self) -> None:
        """Let nobody wait in what stood before; its descriptors are still its own."""
        self.sockets.shut_down()
        self.sockets.forget()

    @property
    def count(self) -> int:
        """Programs that were launched on all ranks together in this generation."""
        return self._counts.get(self._ranks_with(range(len(self._rank_of_process))), 0)

    # --- a launch ----------------------------------------------------------------------------

    def _launch(self, program: Program, run: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        refuse_stale(program, self._generation, self._context)
        ranks = self._ranks_of(program)
        if not program.is_collective:
            return self._launch_alone(program, ranks, run)
        self._check_possible(program, ranks)
        self._under_way.end_finished()
        context = self._context
        sequence = self._counts.get(ranks, 0) + 1
        token = context.begin_call(
            "jax",
            program.name,
            sequence,
            dtype=program.dtype,
            shape=program.shape,
            nbytes=program.nbytes,
            ranks=ranks,
        )
        call = f"{program.name}({program.arguments}) #{sequence}"
        launch = Launch(call, token, context.site)
        self._under_way.add(launch)
        try:
            if context.is_checked and ranks:
                self._compare(program, ranks, call, launch.site)
            self._counts[ranks] = sequence
            launch.has_begun = True
            outputs = run()
            self._met |= program.cliques
        except BaseException as error:
            self._take_failure(launch, error)
            raise
        self._under_way.follow(launch, outputs)
        return outputs

    def _ranks_of(self, program: Program) -> tuple[int, ...]:
        """Return the ranks whose devices it uses; none where JAX was formed without us."""
        ranks = self._ranks.get(program.processes)
        if ranks is None:
            ranks = self._ranks[program.processes] = self._ranks_with(program.processes)
        return ranks

    def _ranks_with(self, processes: Sequence[int]) -> tuple[int, ...]:
        known = self._rank_of_process
        if max(processes, default=0) >= len(known):
            return ()
        return tuple(sorted({known[process] for process in processes}))

    def _check_possible(self, program: Program, ranks: tuple[int, ...]) -> None:
        """Raise what makes a launch useless, or harmful."""
        refuse_absent(program, ranks, self._context)  # first: it is so on each of them
        if (failure := self.failure) is not None:
            raise failure.to_error()
        if self.is_broken:
            raise refuse_broken(program)
        if not program.cliques <= self._met and (why := self._why_service_is_gone()):
            self.is_broken = True
            raise refuse_strangers(program, why)

    def _launch_alone(
        self, program: Program, ranks: tuple[int, ...], run: Callable[[], Sequence[Any]]
    ) -> Sequence[Any]:
        """Launch a program in which nobody waits for anybody: only --check wants to know of it."""
        if self._context.is_checked and ranks and set(ranks) <= set(self._context.cell_ranks):
            self._compare(program, ranks, f"{program.name}({program.arguments})", "")
        return run()

    def _compare(self, program: Program, ranks: tuple[int, ...], call: str, site: str) -> None:
        """Agree with the ranks of a program on it, before anything of it runs."""
        # Two equal programs on different lines are most likely two in another order; but who
        # sends a broadcast may well stand on a line of its own.
        where = "" if is_in_broadcast(program) else site
        try:
            self._context.compare(
                "jax", ranks, claim=call, agreement=f"{program.fingerprint} {where}", site=site
            )
        except CollectiveMismatch as error:
            rank, call, peer, peer_call = error.rank, error.call, error.peer, error.peer_call
            raise CollectiveMismatch(
                rank, call, peer, peer_call, error.who, _OTHER_PROGRAM
            ) from None
        if (failure := self.failure) is not None:
            raise failure.to_error()

    def _take_failure(self, launch: Launch, error: BaseException) -> None:
        """Note how a launch has failed; JAX is broken when others may be in it without us."""
        self._under_way.end(launch, is_ok=False)
        self._last_failed = launch
        if not launch.has_begun:
            return
        if find_broken(error) is not None:
            self.is_broken = self._broke_off = True
        elif not isinstance(error, Exception):  # an interrupt: what was launched is out of sight
            self._broke_off = True
            self._tear()

    # --- when something has failed: the link thread ---------------------------------------------

    def expect_cell(self) -> None:
        """Forget the failure of an earlier cell."""
        self.failure = None
        self._torn_s = None
        self._torn = frozenset()
        self._broke_off, self._was_broken = False, self.is_broken

    def break_off(self, failed_rank: int, reason: str) -> None:
        """Refuse launches from now on; those under way have GRACE_S to end."""
        if self.failure is None:
            self.failure = Failure(failed_rank, reason, monotonic())

    def look(self) -> None:
        """End records of what is ready; tear what waits for a rank that has failed."""
        if self._under_way:
            self._end_finished()
        failure = self.failure
        if failure is None or monotonic() - failure.since_s < GRACE_S:
            return
        waiting = self._under_way.waiting
        if waiting - self._torn or (waiting and monotonic() > self._tear_again_s):
            self._tear()

    def _tear(self) -> None:
        """Make whatever waits for other ranks raise."""
        self.is_broken = True
        is_again = self._torn_s is not None
        if self._torn_s is None:
            self._torn_s = monotonic()
        self._torn = self._under_way.waiting
        self._tear_again_s = monotonic() + TEAR_AGAIN_S
        self.sockets.shut_down()
        if is_again:
            # In a thread, for a library of 300 MB has to be looked through.
            _start("gloo-sends", lambda: end_lost_sends(JAX_LIBRARY))
        if self._releasing is None or not self._releasing.is_alive():
            # Of its own, for the coordination service may not answer.
            self._releasing = _start("jax-release", release_members)

    # --- the end of a cell: the main thread ---------------------------------------------------

    def settle(self) -> None:
        """Wait until all that was launched is ready; raises the first error among it."""
        self._wait(self._is_stuck)
        if self._has_outputs and (failure := self.failure) is not None:
            self._under_way.end_all()
            raise failure.to_error()
        failed, self._under_way.failed = self._under_way.failed, None
        if failed is not None:
            self._last_failed, error = failed
            raise self.explain(error) or error
        if self.is_broken and not self._was_broken and (self._broke_off or self.failure is None):
            raise self._tell_broken("the cell itself has caught its error")

    def _is_stuck(self) -> bool:
        """Return whether what is still under way will never be ready."""
        torn_s, failure = self._torn_s, self.failure
        return torn_s is not None and failure is not None and monotonic() - torn_s > STUCK_S

    def _wait(self, is_enough: Callable[[], bool]) -> None:
        """Wait for outputs in slices."""
        pause_s = _FIRST_PAUSE_S
        while self._has_outputs and not is_enough():
            time.sleep(pause_s)  # nothing tells when an output is ready, but a wait in C++
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    @property
    def _has_outputs(self) -> bool:
        self._end_finished()
        return self._under_way.has_outputs

    def _end_finished(self) -> None:
        self._under_way.end_finished()
        if (failed := self._under_way.failed) is not None and find_broken(failed[1]) is not None:
            self.is_broken = True

    def explain(self, error: BaseException) -> BaseException | None:
        """Return what an error of a broken collective means: which rank has failed, and how."""
        self._leave_nothing()
        if is_of(error, KeyboardInterrupt) or is_of(error, DistError):
            return None
        broken = find_broken(error)
        if broken is None:
            return None
        if not self._counts and self.failure is None:  # nothing of this generation has failed
            return FrameworkError(_OF_BEFORE)
        self.is_broken = True
        meant = self._tell_broken(shorten(broken))
        meant.__cause__ = error
        return meant

    def _tell_broken(self, how: str) -> DistError:
        if (failure := self._await_failure()) is not None:
            return failure.to_error()
        what = str(self._last_failed) if self._last_failed else "a collective of JAX"
        return FrameworkError(
            f"{what} broke off: {how}. JAX is formed again on all ranks before the next cell; "
            "%%spmd --check compares what ranks launch before it runs."
        )

    def _leave_nothing(self) -> None:
        """At the end of a cell that failed: have nothing under way that nobody waits for."""
        end_s = monotonic() + GRACE_S
        self._wait(lambda: monotonic() >= end_s)
        if self._has_outputs:
            self._tear()
            end_s = monotonic() + TORN_S
            self._wait(lambda: monotonic() >= end_s)
            self._under_way.end_all()
        self._under_way.failed = None

    def _await_failure(self) -> Failure | None:
        end_s = monotonic() + NEWS_S
        while self.failure is None and monotonic() < end_s:
            time.sleep(_LONGEST_PAUSE_S)
        return self.failure


def _start(name: str, target: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=target, name=name, daemon=True)
    thread.start()
    return thread


def find_broken(error: BaseException) -> BaseException | None:
    """Return the error of a broken collective that this one is, or comes from."""
    for each in causes(error):
        name = type(each).__name__
        if name in _KINDS and any(word in error_text(each) for word in _WORDS):
            return each
    return None


def shorten(error: BaseException) -> str:
    """Return the first line of such an error, without the status code before it."""
    first = error_text(error).strip().partition("\n")[0].strip()
    first = _REPEATED.sub(r"\1", first.removeprefix("UNKNOWN: "))
    text = first.rstrip(".") or type(error).__name__
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
