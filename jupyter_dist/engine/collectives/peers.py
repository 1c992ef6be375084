"""Where the other ranks of a generation are: of some it is known, for others a call asks."""

from collections.abc import Mapping

from jupyter_dist.collective.control import Control
from jupyter_dist.errors import CollectiveTimeout
from jupyter_dist.protocol.places import Place, key_of, read_place


class Peers:
    """Addresses by rank; those that are not known yet are asked for."""

    def __init__(
        self, known: Mapping[int, Place], control: Control | None, patience_s: float
    ) -> None:
        """Wait `patience_s` for each answer: hundreds may ask at once, on few cores."""
        self._known = dict(known)
        self._patience_s = patience_s
        self._control = control

    def __getitem__(self, rank: int) -> str:
        """Return the address of a rank; raises CollectiveTimeout or PeerFailed if none comes."""
        return self._find(rank).address

    def host_of(self, rank: int) -> str:
        """Return the name of a rank's host; raises as for its address."""
        return self._find(rank).host

    def _find(self, rank: int) -> Place:
        place = self._known.get(rank)
        if place is None:
            place = self._known[rank] = self._ask(rank)
        return place

    def _ask(self, rank: int) -> Place:
        assert self._control is not None, "without a coordinator all are known"
        try:
            return read_place(self._control.get(key_of(rank), self._patience_s))
        except CollectiveTimeout:
            raise CollectiveTimeout(
                f"waited {self._patience_s:g} s for the coordinator to tell where rank {rank} is"
            ) from None
