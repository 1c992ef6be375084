"""Sends signals to engines; an interrupt that is meant for a cell reaches it within that cell.

The signal would often be faster than the cell itself, which comes another way, and a rank that is
idle has to let SIGINT pass. The engine's recorder tells when the cell has begun, and when it has
ended.
"""

import threading
import time
from collections.abc import Callable

from jupyter_dist.agent.engines.engine_processes import EngineTable
from jupyter_dist.protocol import host_agent_pb2 as pb

PATIENCE_S = 2.0
"""After this a rank that has not begun the cell is signalled: what delays the cell may need it."""
MOST_PATIENCE_S = 40.0
"""A cell that has not begun by then will not: the coordinator gives a rank up before that."""
LOOK_INTERVAL_S = 0.002
LATE_LOOK_INTERVAL_S = 0.1
"""Used after PATIENCE_S: many ranks may have to be looked at for a long time."""


class Signaller:
    """One host's signals."""

    def __init__(self, engines: EngineTable, tell: Callable[[pb.AgentEvent], None]) -> None:
        self._engines = engines
        self._tell = tell

    def obey(self, command: pb.SendSignal) -> None:
        """Send the signal to whom it can be sent now; wait for others on a thread."""
        engines = list(command.engines)
        early = [engine for engine in engines if self._is_early(engine, command.cell_id)]
        if not early:
            self._finish(command, self._send(command, engines))
            return
        reached = self._send(command, [engine for engine in engines if engine not in early])
        arguments = (command, early, reached)
        threading.Thread(target=self._wait, args=arguments, name="signals", daemon=True).start()

    def _wait(self, command: pb.SendSignal, early: list[str], reached: list[str]) -> None:
        sent_s = time.monotonic()
        until_s = sent_s + PATIENCE_S
        early = self._send_as_they_begin(command, early, reached, until_s, LOOK_INTERVAL_S)
        self._finish(command, reached + self._send(command, early))
        # A rank that had no core may begin it still, and has let that signal pass.
        until_s = sent_s + MOST_PATIENCE_S
        self._send_as_they_begin(command, early, [], until_s, LATE_LOOK_INTERVAL_S)

    def _send_as_they_begin(
        self,
        command: pb.SendSignal,
        early: list[str],
        reached: list[str],
        until_s: float,
        interval_s: float,
    ) -> list[str]:
        """Signal each engine when it has begun the cell; return those that have not."""
        while early and time.monotonic() < until_s:
            begun = [engine for engine in early if not self._is_early(engine, command.cell_id)]
            reached += self._send(command, begun)
            early = [engine for engine in early if engine not in begun]
            time.sleep(interval_s)
        return early

    def _send(self, command: pb.SendSignal, engines: list[str]) -> list[str]:
        """Signal those that have not finished the cell."""
        busy = [engine for engine in engines if not self._is_late(engine, command.cell_id)]
        return self._engines.send_signal(busy, command.signal)

    def _finish(self, command: pb.SendSignal, reached: list[str]) -> None:
        event = pb.SignalSent(request_id=command.request_id, engines=reached)
        self._tell(pb.AgentEvent(signal_sent=event))

    def _is_early(self, engine: str, cell_id: str) -> bool:
        """Return whether an engine is known not to have begun this cell."""
        cell = self._engines.last_cell(engine) if cell_id else None
        lives = self._engines.pid(engine) is not None
        return lives and bool(cell_id) and cell is not None and cell.cell_id != cell_id

    def _is_late(self, engine: str, cell_id: str) -> bool:
        cell = self._engines.last_cell(engine) if cell_id else None
        return cell is not None and cell.cell_id == cell_id and bool(cell.end_ns)
