"""What tests read from the results of cells."""


def values(result):
    """What the last expression was on each rank; fails with what went wrong."""
    assert result.ok, [str(rank.error) for rank in result]
    return [rank.value_repr for rank in result]


def outcome(cluster, code, **options):
    """Run a cell that must end well; gives what its last expression was on each rank."""
    return values(cluster.run(code, **options))


def statuses(result):
    """How the cell ended on each rank."""
    return [rank.status for rank in result]


def errors(result):
    """What each rank raised, as it is told."""
    return [str(rank.error) for rank in result]
