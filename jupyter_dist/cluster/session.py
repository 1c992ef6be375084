"""Everything that can be asked of a running cluster."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec
from msgspec.structs import replace

from jupyter_dist.cluster.bench import run_bench
from jupyter_dist.cluster.cells.background_cell import BackgroundCell, EndWatcher
from jupyter_dist.cluster.cells.program import run_program
from jupyter_dist.cluster.checkpoints import checkpoint, checkpoints, restore
from jupyter_dist.cluster.code.sync import RELOAD_COMMAND, Paths, SyncResult, sync_code
from jupyter_dist.cluster.connection.queued_request import OnStage, ask_at_fence
from jupyter_dist.cluster.healing import Healed, Shrunken
from jupyter_dist.cluster.ipyparallel.controller import ipyparallel, leave_ipyparallel
from jupyter_dist.cluster.observed import ANSWER_TIMEOUT_S, ObservedCluster
from jupyter_dist.cluster.result import SpmdResult
from jupyter_dist.cluster.spec.checks import On, Ranks, read_ranks
from jupyter_dist.cluster.spmd import CellWatcher, check_syntax, run_cell, shows_widgets
from jupyter_dist.cluster.transfer import ObjectTransfer, OnMoved, check_kind
from jupyter_dist.cluster.variables.handles import Variables
from jupyter_dist.model.hosts.axes import Axes, read_sizes, write_sizes
from jupyter_dist.model.spec.error_policy import read_on_error
from jupyter_dist.protocol.messages import (
    CellInterruptSent,
    Command,
    HealRanks,
    InterruptCell,
    NameAxes,
    PullObject,
    RanksHealed,
    RanksStopping,
    ShrinkCluster,
    Shrunk,
    StopRanks,
    Stops,
    SubmitCell,
)

if TYPE_CHECKING:
    from jupyter_dist.cluster.widget_line import WidgetLine, WidgetWatcher

Kind = TypeVar("Kind")


class Session(ObservedCluster):
    """What a Cluster is once it runs; see Cluster for how it begins and ends."""

    # --- cells ---

    def run(  # noqa: PLR0913  (each is an option of %%spmd)
        self,
        code: str,
        ranks: Ranks = None,
        timeout_s: float | None = None,
        *,
        label: int = 1,
        is_setup: bool = False,
        check: bool = False,
        on_error: str = "release",
        on: On = None,
        one_answer: bool = False,
        stops: Stops | None = None,
        tell_slowest: bool = True,
        watcher: CellWatcher | None = None,
    ) -> SpmdResult:
        """Run code on the ranks (None: all) and give what happened, a lost rank included.

        Raises SyntaxError and UsageError (no rank ran it), CellRefused (the fence stays closed:
        a rank is lost) and ClusterGone. A first Ctrl-C interrupts the ranks, a second one is
        raised as KeyboardInterrupt; `label` is the n of the cell's `In[n]`. With `check` ranks
        compare each collective before they begin it. `on_error` says what becomes of the others
        when one raises: they leave collectives (release), are interrupted (interrupt), or go on
        (wait). `on` chooses ranks as `select` does. What ranks ask by `input()` a person is asked
        at the terminal or notebook, with `one_answer` once for all ranks that ask the same. `stops`
        says where they stop; `tell_slowest`, if a note names the slowest rank.
        """
        wanted = self._check(ranks, timeout_s, on)
        policy, is_plain = read_on_error(on_error), check_syntax(code, label)
        request = SubmitCell(
            self._cells.new_request_id(),
            code,
            wanted,
            timeout_s,
            label,
            is_setup,
            is_plain,
            check,
            policy,
            one_answer,
            shows_widgets=shows_widgets(watcher),
            stops=stops,
            tells_slowest=tell_slowest,
        )
        return run_cell(self._cells, request, watcher, self.pull, self.axes)

    def run_in_background(  # noqa: PLR0913  (as `run`)
        self,
        code: str,
        ranks: Ranks = None,
        timeout_s: float | None = None,
        *,
        label: int = 1,
        is_setup: bool = False,
        check: bool = False,
        on_error: str = "release",
        on: On = None,
        one_answer: bool = False,
        stops: Stops | None = None,
        tell_slowest: bool = True,
        watcher: EndWatcher | None = None,
    ) -> BackgroundCell:
        """Begin to run code on the ranks, and return what can be done with it; options as in `run`.

        It runs after what was begun before it; what is begun after it waits. Raises SyntaxError
        and UsageError; all other errors come from its `wait`. The watcher is called on a thread.
        """
        wanted, policy = self._check(ranks, timeout_s, on), read_on_error(on_error)
        is_plain, line = check_syntax(code, label), self._new_line()
        request = SubmitCell(
            line.new_request_id(),
            code,
            wanted,
            timeout_s,
            label,
            is_setup,
            is_plain,
            check,
            policy,
            one_answer,
            shows_widgets=shows_widgets(watcher),
            stops=stops,
            tells_slowest=tell_slowest,
        )
        return BackgroundCell(line, request, watcher, self.pull, self.axes)

    def run_command(
        self,
        command: Command,
        ranks: Ranks = None,
        *,
        label: int = 1,
        timeout_s: float | None = None,
        on_error: str = "release",
        watcher: CellWatcher | None = None,
    ) -> SpmdResult:
        """Have ranks (None: all) carry out a command in place of a cell; see `run`."""
        request = SubmitCell(
            self._cells.new_request_id(),
            command.title,
            self._check(ranks),
            timeout_s,
            label=label,
            on_error=read_on_error(on_error),
            command=command,
        )
        return run_cell(self._cells, request, watcher, axes=self.axes)

    def follow_widgets(self, watcher: "WidgetWatcher") -> "WidgetLine":
        """Tell a watcher what widgets of ranks say, on a thread; its line speaks to them."""
        from jupyter_dist.cluster.widget_line import WidgetLine

        following = self._widget_line = WidgetLine(self._new_line(), watcher)
        following.start()
        return following

    run_program = run_program
    bench = run_bench
    checkpoint = checkpoint
    restore = restore
    checkpoints = checkpoints
    ipyparallel = ipyparallel
    leave_ipyparallel = leave_ipyparallel

    def interrupt(self, ranks: Ranks = None) -> tuple[int, ...]:
        """Send SIGINT to what runs on the ranks; give those that were busy."""
        wanted = read_ranks(ranks, self.world_size)
        with contextlib.closing(self._new_line()) as line:
            request = InterruptCell(line.new_request_id(), wanted)
            return line.ask(request, CellInterruptSent, timeout_s=ANSWER_TIMEOUT_S)[0].ranks

    def stop_ranks(self, ranks: Ranks = None) -> tuple[int, ...]:
        """Have ranks that run a cell stop in the debugger, wherever they are; return which."""
        wanted = read_ranks(ranks, self.world_size)
        with contextlib.closing(self._new_line()) as line:
            request = StopRanks(line.new_request_id(), wanted)
            return line.ask(request, RanksStopping, timeout_s=ANSWER_TIMEOUT_S)[0].ranks

    # --- axes ---

    def name_axes(self, sizes: str | Mapping[str, int] | None, order: Sequence[int] = ()) -> Axes:
        """Name axes over the ranks, as `"data=4,model=2"` or `{"data": -1, "model": 2}`.

        The last axis is the fastest, as in meshes of JAX and torch; -1 follows from the number of
        ranks. `order` has the rank at each place, by default 0, 1, 2, …. None drops them. They
        hold from the next cell on, until the cluster shrinks. Raise UsageError where they do not
        fit.
        """
        given: Iterable[tuple[str, int]] = ()
        if sizes is not None:
            given = read_sizes(sizes if isinstance(sizes, str) else write_sizes(sizes))
        self._check_open()
        request = NameAxes(
            self._control.new_request_id(),
            tuple(name for name, _size in given),
            tuple(size for _name, size in given),
            tuple(order),
        )
        return self._locate(request).axes

    def name_axes_of(self, mesh: str) -> Axes:
        """Name the axes of a jax.sharding.Mesh or a DeviceMesh of torch, a variable of the ranks.

        Their order of ranks is taken over. Raise RankRaised where it does not have one device of
        each rank, and UsageError where ranks have different ones.
        """
        from jupyter_dist.cluster.axes.meshes import ask_mesh

        found = ask_mesh(self, mesh)
        return self.name_axes(dict(zip(found.names, found.sizes, strict=True)), found.order)

    # --- lost ranks ---

    def heal(self, ranks: Ranks = None, *, on_stage: OnStage | None = None) -> Healed:
        """Replace these ranks (None: those that are lost); the others keep everything they have.

        A rank that lives is killed first: so a rank is replaced that no interrupt reaches.
        New ranks run the cells that were marked as setup. Waits until nothing runs on the others;
        `on_stage` gets a sentence on what is waited for. Ctrl-C takes back what has not begun.
        Raises UsageError (every rank is there) and HealFailed.
        """
        with contextlib.closing(self._new_line()) as line:
            request = HealRanks(line.new_request_id(), read_ranks(ranks, self.world_size))
            healed = ask_at_fence(line, request, RanksHealed, on_stage)
        self._await_ready(None)
        return msgspec.convert(healed, Healed, from_attributes=True)

    def shrink(self, *, on_stage: OnStage | None = None) -> Shrunken:
        """Go on without the lost ranks; the others keep everything, and are numbered again.

        Waits, and can be cancelled, as `heal` does. Raises UsageError (no rank is lost, or all are)
        and HealFailed.
        """
        with contextlib.closing(self._new_line()) as line:
            shrunken = ask_at_fence(line, ShrinkCluster(line.new_request_id()), Shrunk, on_stage)
        self._await_ready(None)
        return msgspec.convert(shrunken, Shrunken, from_attributes=True)

    # --- objects ---

    def push(
        self,
        objects: Mapping[str, object],
        ranks: Ranks = None,
        *,
        on: On = None,
        timeout_s: float | None = None,
        on_stage: OnStage | None = None,
        on_moved: OnMoved | None = None,
    ) -> None:
        """Put objects into the ranks' namespaces under their names.

        Waits until ranks are idle; `on_stage` gets a sentence on what is waited for, and `on_moved`
        how much has arrived, of what takes more than half a second. Ctrl-C takes back what has not
        begun, and interrupts ranks that rebuild it, as `timeout_s` seconds after they began do.
        `on` chooses ranks as `select` does.
        Raises TransferError naming the object and the rank that could not take it.
        """
        wanted = self._check(ranks, timeout_s, on)
        ObjectTransfer(self._cells, on_stage, on_moved).push(objects, wanted, timeout_s)

    @overload
    def pull(
        self,
        name: str,
        ranks: Ranks = None,
        *,
        kind: None = None,
        on: On = None,
        timeout_s: float | None = None,
        most_bytes: int = 0,
        cell_id: str = "",
        on_stage: OnStage | None = None,
        on_moved: OnMoved | None = None,
    ) -> dict[int, Any]: ...
    @overload
    def pull(
        self,
        name: str,
        ranks: Ranks = None,
        *,
        kind: type[Kind],
        on: On = None,
        timeout_s: float | None = None,
        most_bytes: int = 0,
        cell_id: str = "",
        on_stage: OnStage | None = None,
        on_moved: OnMoved | None = None,
    ) -> dict[int, Kind]: ...
    def pull(  # noqa: PLR0913  (what is wanted, and how it is followed)
        self,
        name: str,
        ranks: Ranks = None,
        *,
        kind: type[Any] | None = None,
        on: On = None,
        timeout_s: float | None = None,
        most_bytes: int = 0,
        cell_id: str = "",
        on_stage: OnStage | None = None,
        on_moved: OnMoved | None = None,
    ) -> dict[int, Any]:
        """Fetch a name, or an expression that ranks evaluate, as `w[:10]`: rank -> object.

        Waits, is followed, cancelled and interrupted as `push` is, with `on` as there. Raises
        TransferError naming the rank that has no such name, cannot send it, or has more than
        `most_bytes` there (0: no limit). With a `kind`, as `float`, each object is checked to be
        one, and type checkers know it. With a `cell_id` it must be the value of that cell, as
        `Out[3]` is.
        """
        ranks = self._check(ranks, timeout_s, on)
        wanted = PullObject("", name, ranks, timeout_s, cell_id, most_bytes)
        found = ObjectTransfer(self._cells, on_stage, on_moved).pull(wanted, self.world_size)
        if kind is not None:
            check_kind(name, kind, found)
        return found

    vars = property(Variables, doc="Variables of ranks: see `cluster.variables.handles`.")

    def sync(
        self,
        paths: Paths,
        reload: bool = False,
        *,
        force: bool = False,
        on_moved: OnMoved | None = None,
    ) -> SyncResult:
        """Copy code to every host and make it importable there: see `sync_code`.

        With `reload` ranks then load modules again whose source has changed, once they are idle:
        `result.reload` is what came of that cell. `force` lifts the limits.
        """
        with contextlib.closing(self._new_line()) as line:
            result = sync_code(line, paths, is_forced=force, on_moved=on_moved)
        return replace(result, reload=self.run_command(RELOAD_COMMAND)) if reload else result
