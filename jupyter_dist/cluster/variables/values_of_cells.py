"""The values of a cell's last expression, which stay on their ranks until they are wanted."""

from typing import Any, Protocol

MOST_BYTES = 1 << 30
"""What is larger is fetched only by `pull`."""


class Fetch(Protocol):
    """Fetches what an expression is on a rank; see `Session.pull`."""

    def __call__(self, name: str, ranks: int, *, most_bytes: int, cell_id: str) -> dict[int, Any]:
        """Return it by rank; raises TransferError."""


class ValuesOfCell:
    """What `Out[n]` is on each rank, as long as it is of this cell."""

    def __init__(self, label: int, cell_id: str, fetch: Fetch) -> None:
        self._name = f"Out[{label}]"
        self._cell_id = cell_id
        self._fetch = fetch
        self._fetched: dict[int, object] = {}

    def __repr__(self) -> str:
        return self._name

    def __getitem__(self, rank: int) -> Any:
        """Return the value of a rank, fetched once; raises TransferError when it is not kept."""
        if rank not in self._fetched:
            self._fetched |= self._fetch(
                self._name, rank, most_bytes=MOST_BYTES, cell_id=self._cell_id
            )
        return self._fetched[rank]
