"""A cluster for tests that may hang: all its cells have an end."""


class Ranks:
    """Runs cells that end as timed out after `cell_s`: a hang is a failed test, never a hung run."""

    def __init__(self, cluster, cell_s):
        self.cluster = cluster
        self._cell_s = cell_s

    def run(self, code, timeout_s=None, **options):
        """Run a cell and give its result, whatever that is."""
        return self.cluster.run(code, timeout_s=timeout_s or self._cell_s, **options)

    def values(self, code, **options):
        """Return what the last expression was on each rank; fail with what went wrong."""
        result = self.run(code, **options)
        problems = [f"rank {rank.rank}: {rank.error}" for rank in result if rank.error is not None]
        assert result.ok, "\n".join(problems)
        return [rank.value_repr for rank in result]

    def pids(self):
        """Return the process of each rank."""
        return {engine.rank: engine.pid for engine in self.cluster.topology().engines}
