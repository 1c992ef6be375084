"""What a cell finds: rank, world_size, local_rank, local_world_size, comm and checkpoint."""

import difflib
import os
import sys
from collections.abc import Sequence
from typing import Any

from jupyter_dist.collective.communicator import Communicator, NoCommunicator
from jupyter_dist.collective.group import Group
from jupyter_dist.control.memory_file import map_frames, map_frozen
from jupyter_dist.engine.execution.reserved_names import restore_names, warn_of_bindings
from jupyter_dist.engine.launch_config import place_variables
from jupyter_dist.engine.observation.arrays import library_of
from jupyter_dist.engine.observation.variables import describe
from jupyter_dist.engine.shell.rank_shell import RankShell
from jupyter_dist.errors import TransferError
from jupyter_dist.model.hosts.axes import Axes
from jupyter_dist.model.hosts.rank import RankInfo, name_along
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import FetchObject, StoreObjects
from jupyter_dist.protocol.objects import pack, split_frames, unpack
from jupyter_dist.text.lists import name_pull
from jupyter_dist.text.sizes import tell_size

_MOST_VALUES = 1000
"""IPython keeps so many."""


_OFFERED = (
    *("rank", "size", "generation", "kind", "timeout_s", "check", "stream"),
    *("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "all_to_all"),
    *("gather", "scatter", "send", "recv", "send_recv", "barrier", "split"),
    *("broadcast_object", "all_gather_object", "gather_object", "scatter_object"),
    *("object_barrier", "assert_equal", "to_global", "to_local", "abort", "close"),
)
"""What cells use of a communicator, in the order in which a reader looks for it."""
_NAMED_ELSEWHERE = {
    "worldsize": "size",
    "allgatherintotensor": "allgather",
    "allgathersingle": "allgather",
    "reducescattertensor": "reducescatter",
    "alltoallsingle": "alltoall",
    "broadcastobjectlist": "broadcastobject",
    "scatterobjectlist": "scatterobject",
    "isend": "send",
    "irecv": "recv",
    "newgroup": "split",
    "psum": "allreduce",
    "ppermute": "sendrecv",
    "axisindex": "rank",
}
"""Names in torch.distributed and JAX that look like none of ours, or like another one."""


class CurrentCommunicator:
    """`comm`: always the communicator of the present generation.

    Cells and the objects they make may keep it; after a failure it leads to the communicator
    that was formed again, not to the broken one.
    """

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(self._communicator, name)
        except AttributeError:
            if name.startswith("_") or hasattr(type(self._communicator), name):
                raise
            raise AttributeError(_explain_missing(name, dir(self))) from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_communicator":
            object.__setattr__(self, name, value)
        else:
            setattr(self._communicator, name, value)

    def __dir__(self) -> list[str]:
        return [name for name in _OFFERED if hasattr(self._communicator, name)]

    def __repr__(self) -> str:
        return repr(self._communicator)


def _explain_missing(name: str, known: Sequence[str]) -> str:
    """Say that `comm` has no such attribute, and which one has this name in other libraries."""
    plain = {each.replace("_", ""): each for each in known}
    wanted = name.lower().replace("_", "").removeprefix("get")  # as mpi4py's Get_rank
    wanted = _NAMED_ELSEWHERE.get(wanted, wanted)
    near = [plain[each] for each in difflib.get_close_matches(wanted, plain, 1)]
    meant = f" Did you mean comm.{near[0]}?" if near else f" It has {', '.join(known)}."
    return f"comm has no {name!r}.{meant}"


class Namespace:
    """The names of one rank."""

    def __init__(self, shell: RankShell, info: RankInfo) -> None:
        self.shell = shell
        """Runs cells, and has the user's names."""
        self.checkpoint: object = None
        """What is called so in cells."""
        self.of_program: dict[str, Any] | None = None
        """The variables of the program that runs; None: none does, or only Python knows them."""
        self.all_ranks = tuple(range(info.world_size))
        """All ranks that there are."""
        self._is_checked_always = False
        self._valued_cells: dict[int, str] = {}
        """By number, the cells whose values IPython keeps in `Out`."""
        self._placed = place_variables(info)
        """What was put into the environment."""
        group = Group(info.rank, info.world_size, 0)
        none_yet = NoCommunicator(group, "none has been formed yet")
        self._comm = CurrentCommunicator(none_yet)

    @property
    def communicator(self) -> Communicator:
        """The communicator of the present generation."""
        return self._comm._communicator  # noqa: SLF001  (its own proxy)

    def enter_generation(self, info: RankInfo, communicator: Communicator) -> None:
        """Put the place of this rank, and its communicator, under their names."""
        self.all_ranks = tuple(range(info.world_size))
        before = self.communicator
        if before.generation:  # what the user has set holds for the one that takes its place
            communicator.timeout_s, communicator.check = before.timeout_s, before.check
        self._comm._communicator = communicator  # noqa: SLF001  (its own proxy)
        names = {
            "rank": info.rank,
            "world_size": info.world_size,
            "local_rank": info.local_rank,
            "local_world_size": info.local_world_size,
            "comm": self._comm,
            "checkpoint": self.checkpoint,
        }
        self.shell.own_names = names
        self.shell.push(names, interactive=False)
        for name, value in place_variables(info).items():
            if os.environ.get(name) == self._placed.get(name):  # else it is the user's own
                os.environ[name] = self._placed[name] = value

    def take_axes(self, axes: Axes) -> None:
        """Know where this rank is along these axes, and name ranks so."""
        name_along(axes)
        self.communicator.take_axes(axes)

    def enter_cell(self, ranks: Sequence[int], is_checked: bool) -> None:
        """Tell the communicator who takes part, and whether calls are compared in this cell."""
        restore_names(self.shell)  # a thread or a task may have bound them
        everyone = len(ranks) == len(self.all_ranks)
        communicator = self.communicator
        communicator.participants = None if everyone else frozenset(ranks)
        self._is_checked_always = communicator.check
        if is_checked:
            communicator.check = True

    def take_back_names(self, code: str) -> None:
        """Restore what the cell has made of `rank`, `comm` and their like, with a warning."""
        if changed := restore_names(self.shell):
            warn_of_bindings(self.shell, code, changed)

    def leave_cell(self, is_checked: bool) -> None:
        """Compare calls in other cells only if a cell has asked for that."""
        if is_checked:
            self.communicator.check = self._is_checked_always

    def store(
        self, names: Sequence[str], frame_counts: Sequence[int], frames: Sequence[Frame]
    ) -> None:
        """Put pushed objects under their names, all or none; raises TransferError."""
        pieces = split_frames(frames, frame_counts)
        values = {name: unpack(name, piece) for name, piece in zip(names, pieces, strict=True)}
        self.shell.push(values, interactive=True)

    def store_placed(self, message: StoreObjects) -> None:
        """Put pushed objects from a file under their names; raises TransferError.

        The file is mapped privately: ranks of a host share its memory until one writes to it.
        """
        try:
            if message.file:
                frames = map_frozen(message.file, message.sizes)
            else:
                with open(message.path, "rb") as file:
                    frames = map_frames(file.fileno(), message.sizes)
        except (OSError, ValueError) as error:
            raise TransferError(f"what was pushed cannot be read: {error}") from error
        self.store(message.names, message.frame_counts, frames)

    def keep_value(self, label: int, cell_id: str) -> None:
        """Remember that IPython keeps the value of this cell, until one of the same number ends."""
        if self._valued_cells.pop(label, None) is None and len(self._valued_cells) == _MOST_VALUES:
            del self._valued_cells[next(iter(self._valued_cells))]
        self._valued_cells[label] = cell_id

    def _has_value(self, cell_id: str) -> bool:
        labels = [label for label, cell in self._valued_cells.items() if cell == cell_id]
        kept = self.shell.user_ns.get("Out")
        return bool(labels) and isinstance(kept, dict) and labels[0] in kept

    def fetch(self, message: FetchObject) -> list[Frame]:
        """Pack what an expression is; raise TransferError, or what the expression raises."""
        name = message.name
        if message.cell_id and not self._has_value(message.cell_id):
            raise TransferError(
                f"the value is no longer kept: {name} was cleared, or another cell has that number"
            )
        if name.isidentifier() and name not in self.shell.user_ns:
            raise TransferError(f"there is no {name!r}")
        code = compile(name, f"<{name_pull(name)}>", "eval", dont_inherit=True)
        value = eval(code, self.shell.user_ns)  # noqa: S307  (of a user, as all that ranks run)
        if message.most_bytes:
            _check_size(name, describe(name, value, with_value=False).nbytes, message.most_bytes)
        frames = pack(name, value if name.isidentifier() else _alone(value))
        if message.most_bytes:
            size_bytes = sum(memoryview(frame).nbytes for frame in frames)
            _check_size(name, size_bytes, message.most_bytes)
        return frames


def _check_size(name: str, size_bytes: int, most_bytes: int) -> None:
    if size_bytes > most_bytes:
        raise TransferError(
            f"{name} takes {tell_size(size_bytes)}, and only {tell_size(most_bytes)} are fetched "
            f"without being asked for: take a part of it, or all of it with pull({name!r})"
        )


def _alone(value: object) -> object:
    """Return a value without what it is a part of: torch would send the whole storage of a view."""
    if library_of(value) != "torch":
        return value
    tensor: Any = value
    if tensor.layout is not sys.modules["torch"].strided:
        return value
    if tensor.untyped_storage().nbytes() == tensor.nbytes:
        return value
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)
