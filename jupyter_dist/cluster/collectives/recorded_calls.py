"""What ranks have recorded of their collectives, gathered from all hosts."""

import msgspec

from jupyter_dist.cluster.collectives.collective_table import CollectiveTable, tabulate
from jupyter_dist.cluster.connection.connection import Connection
from jupyter_dist.errors import UsageError
from jupyter_dist.model.ranks.records import DEFAULT_LAST, HostRecords, RankRecords
from jupyter_dist.protocol.messages import CollectivesRead, ReadCollectives
from jupyter_dist.protocol.objects import split_frames

READ_TIMEOUT_S = 60.0
"""Hosts have seconds for their answer; megabytes of it may need some more on their way."""


class CollectiveLog(msgspec.Struct, frozen=True):
    """The last calls and cells of every rank, also of those that are stuck or lost."""

    hosts: tuple[HostRecords, ...]
    problems: dict[str, str]
    """Hosts of which nothing could be learned, with the reason."""
    world_size: int

    @property
    def ranks(self) -> dict[int, RankRecords]:
        """What is known of each rank."""
        found = (records for host in self.hosts for records in host.ranks)
        return {records.rank: records for records in sorted(found, key=lambda each: each.rank)}

    def table(self, last: int = DEFAULT_LAST) -> CollectiveTable:
        """Put the last so many calls side by side, and find where ranks went apart."""
        return tabulate(self.hosts, self.problems, self.world_size, last)


def read_collectives(line: Connection, world_size: int, last: int) -> CollectiveLog:
    """Read the last calls of each rank (0: all); busy and lost ranks are no hindrance.

    Raises UsageError for a number that cannot be meant, and ClusterGone.
    """
    if last < 0:
        raise UsageError(f"last={last!r} is not accepted: give a number of calls, or 0 for all.")
    request = ReadCollectives(line.new_request_id(), last)
    answer, frames = line.ask(request, CollectivesRead, timeout_s=READ_TIMEOUT_S)
    pieces = split_frames(frames, answer.frame_counts)
    hosts, problems = [], dict(answer.problems)
    for host, own in zip(answer.hosts, pieces, strict=True):
        try:
            hosts.append(msgspec.msgpack.decode(b"".join(own), type=HostRecords))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            problems[host] = f"its records cannot be read: {error}"
    return CollectiveLog(tuple(hosts), problems, world_size)
