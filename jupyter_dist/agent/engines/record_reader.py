"""Reads what ranks have recorded, on a thread: signals must not wait behind megabytes."""

import threading
import time
from collections.abc import Callable

import msgspec

from jupyter_dist.agent.engines.engine_processes import EngineTable
from jupyter_dist.model.ranks.records import HostRecords
from jupyter_dist.protocol import host_agent_pb2 as pb

PIECE_BYTES = 2 << 20
"""gRPC takes messages of up to 4 MiB."""


class RecordReader:
    """Answers questions for records, each on a thread of its own."""

    def __init__(self, engines: EngineTable, tell: Callable[[pb.AgentEvent], None]) -> None:
        self._engines = engines
        self._tell = tell

    def obey(self, host: str, command: pb.ReadRecords) -> None:
        """Read soon; the answer is told from the thread. `host` is what the cluster calls us."""
        arguments = (host, command.request_id, command.last)
        threading.Thread(target=self._read, args=arguments, name="records", daemon=True).start()

    def _read(self, host: str, request_id: str, last: int) -> None:
        ranks = self._engines.read_records(last)
        records = HostRecords(host, time.monotonic_ns(), time.time_ns(), ranks)
        data = msgspec.msgpack.encode(records)
        for start in range(0, len(data), PIECE_BYTES):
            end = start + PIECE_BYTES
            piece = pb.Records(
                request_id=request_id, data=data[start:end], is_last=end >= len(data)
            )
            self._tell(pb.AgentEvent(records=piece))
