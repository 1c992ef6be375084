"""The cells that a replaced rank runs first: those that were marked with `%%spmd --setup`."""

from collections.abc import Mapping, Sequence

import msgspec

from jupyter_dist.model.spec.error_policy import OnError
from jupyter_dist.protocol.messages import SubmitCell


class SetupCells:
    """What has been marked so far, in order; a cell that ran again counts once."""

    def __init__(self) -> None:
        self._cells: list[SubmitCell] = []

    def remember(self, request: SubmitCell, statuses: Mapping[int, str]) -> None:
        """Keep a cell that ended well on all its ranks."""
        if not request.is_setup or set(statuses.values()) != {"ok"}:
            return
        self._cells = [
            cell for cell in self._cells if (cell.code, cell.ranks) != (request.code, request.ranks)
        ]
        self._cells.append(request)

    def for_ranks(self, ranks: Sequence[int]) -> list[SubmitCell]:
        """Return the cells that these ranks have to run, each for those that it is meant for."""
        found = []
        for cell in self._cells:
            meant = tuple(rank for rank in ranks if cell.ranks is None or rank in cell.ranks)
            if meant:
                found.append(
                    msgspec.structs.replace(
                        cell, ranks=meant, timeout_s=None, is_setup=False, on_error=OnError.RELEASE
                    )
                )
        return found

    def renumber(self, renumbered: Mapping[int, int]) -> None:
        """Follow the ranks to their new numbers; a cell for lost ranks only is forgotten."""
        kept = []
        for cell in self._cells:
            if cell.ranks is None:
                kept.append(cell)
                continue
            ranks = tuple(renumbered[rank] for rank in cell.ranks if rank in renumbered)
            if ranks:
                kept.append(msgspec.structs.replace(cell, ranks=ranks))
        self._cells = kept
