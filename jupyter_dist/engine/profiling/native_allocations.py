"""Which lines hold most of the memory that was allocated, by memray: that of C and C++ counts."""

import tempfile
from collections.abc import Callable

from jupyter_dist.engine.profiling.allocations import Found, name_largest
from jupyter_dist.errors import UsageError
from jupyter_dist.model.ranks.profiles import Allocation


class NativeAllocationWatch:
    """Memory that is allocated from now on, by Python, C or C++."""

    def __init__(self) -> None:
        """Begin; raise UsageError with the reason where memray is missing, or already used."""
        try:
            import memray
        except ImportError:
            raise UsageError("memray is not installed on its host") from None
        self._memray = memray
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  (it has no name)
        self._path = f"/dev/fd/{self._file.fileno()}"
        into = memray.FileDestination(self._path, overwrite=True, compress_on_exit=False)
        aggregated = memray.FileFormat.AGGREGATED_ALLOCATIONS  # bounded by places, not by time
        try:
            self._tracker = memray.Tracker(destination=into, file_format=aggregated)
            self._tracker.__enter__()
        except (RuntimeError, OSError) as problem:
            self._file.close()
            raise UsageError(f"memray does not begin: {problem}") from None

    def end(self, name_cell: Callable[[str], str]) -> tuple[int, tuple[Allocation, ...]]:
        """Return what is held by all lines together in bytes, and the lines that hold most."""
        self._tracker.__exit__(None, None, None)
        with self._file, self._memray.FileReader(self._path) as reader:
            found = [
                Found(
                    tuple((file, line) for _, file, line in record.stack_trace()),
                    record.size,
                    record.n_allocations,
                )
                for record in reader.get_leaked_allocation_records(merge_threads=True)
            ]
        return name_largest(found, name_cell)
