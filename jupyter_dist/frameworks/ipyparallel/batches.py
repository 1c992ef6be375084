"""Functions of a notebook in the batches of joblib: they travel as code, as those of views do.

joblib would send their names only, and ranks know nothing of a notebook.
"""

import sys
from typing import Any

from ipyparallel.serialize import canning


class CannedBatch(canning.CannedObject):  # type: ignore[misc]  # not typed
    """A batch of calls whose functions find their global names on the rank."""

    def __init__(self, batch: Any) -> None:
        self.buffers: list[bytes] = []  # ipyparallel looks for large ones
        self.kind, (calls, *self.rest) = batch.__reduce__()
        self.calls = [(canning.can(function), *given) for function, *given in calls]

    def get_object(self, g: dict[str, Any] | None = None) -> Any:
        """Give the batch, with `g` for the global names."""
        calls = [(canning.uncan(function, g), *given) for function, *given in self.calls]
        return self.kind(calls, *self.rest)


def teach_joblib() -> None:
    """Let batches travel like this from now on; joblib is there already."""
    canning.can_map.setdefault(sys.modules["joblib.parallel"].BatchedCalls, CannedBatch)
