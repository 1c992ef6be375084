"""What a cell finds: rank, world_size, local_rank, local_world_size, comm and checkpoint."""

import difflib
import mmap
import os
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from jupyter_dist.collective.communicator import Communicator, NoCommunicator
from jupyter_dist.collective.group import Group
from jupyter_dist.engine.execution.reserved_names import restore_names, warn_of_bindings
from jupyter_dist.engine.launch_config import place_variables
from jupyter_dist.engine.shell.rank_shell import RankShell
from jupyter_dist.errors import TransferError
from jupyter_dist.model.hosts.rank import RankInfo
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import StoreObjects
from jupyter_dist.protocol.objects import pack, split_frames, unpack


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
        return [name for name in dir(self._communicator) if not name.startswith("_")]

    def __repr__(self) -> str:
        return repr(self._communicator)


def _explain_missing(name: str, known: Sequence[str]) -> str:
    """Say that `comm` has no such attribute, and which one has this name in other libraries."""
    plain = {each.replace("_", ""): each for each in known}
    wanted = name.lower().replace("_", "").removeprefix("get")  # as mpi4py's Get_rank
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
        self._info = info
        self._is_checked_always = False
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
        self._info = info
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

    @property
    def all_ranks(self) -> tuple[int, ...]:
        """All ranks that there are."""
        return tuple(range(self._info.world_size))

    def enter_cell(self, ranks: Sequence[int], is_checked: bool) -> None:
        """Tell the communicator who takes part, and whether calls are compared in this cell."""
        restore_names(self.shell)  # a thread or a task may have bound them
        everyone = len(ranks) == self._info.world_size
        self.communicator.participants = None if everyone else frozenset(ranks)
        self._is_checked_always = self.communicator.check
        self.communicator.check = self._is_checked_always or is_checked

    def take_back_names(self, code: str) -> None:
        """Restore what the cell has made of `rank`, `comm` and their like, with a warning."""
        if changed := restore_names(self.shell):
            warn_of_bindings(self.shell, code, changed)

    def leave_cell(self, is_checked: bool) -> None:
        """Compare calls in other cells only if a cell has asked for that."""
        if is_checked:
            self.communicator.check = self._is_checked_always

    def store(self, names: Sequence[str], frame_counts: Sequence[int], frames: list[Frame]) -> None:
        """Put pushed objects under their names, all or none; raises TransferError."""
        pieces = split_frames(frames, frame_counts)
        values = {name: unpack(name, piece) for name, piece in zip(names, pieces, strict=True)}
        self.shell.push(values, interactive=True)

    def store_placed(self, message: StoreObjects) -> None:
        """Put pushed objects from a file under their names; raises TransferError.

        The file is mapped privately: ranks of a host share its memory until one writes to it.
        """
        try:
            with open(message.path, "rb") as file:
                whole = memoryview(
                    mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
                )
        except (OSError, ValueError) as error:
            raise TransferError(f"what was pushed cannot be read: {error}") from error
        ends = list(accumulate(message.sizes))
        frames: list[Frame] = [
            whole[end - size : end] for end, size in zip(ends, message.sizes, strict=True)
        ]
        self.store(message.names, message.frame_counts, frames)

    def fetch(self, name: str) -> list[Frame]:
        """Pack the object with this name; raises TransferError."""
        if name not in self.shell.user_ns:
            raise TransferError(f"there is no {name!r}")
        return pack(name, self.shell.user_ns[name])
