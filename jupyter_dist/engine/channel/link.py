"""The link thread: in charge of the engine's socket while the main thread runs a cell.

It sends what the cell says, hands over what the cell waits for, and breaks the communicator when a
peer has failed. A cell that is over within milliseconds does not wake it.
"""

import select
import threading
from time import monotonic
from typing import Protocol

from jupyter_dist.engine.builtins_guard import BuiltinsGuard
from jupyter_dist.engine.channel.channel import Channel
from jupyter_dist.engine.channel.stack_thread_name import StackSign
from jupyter_dist.engine.leaving.exit_reason import end_out_of_reach, end_with_own_error
from jupyter_dist.launch.processes.open_files import usable_cores
from jupyter_dist.launch.processes.process_life import process_lives
from jupyter_dist.protocol.births import EngineConfig
from jupyter_dist.protocol.messages import Message

TAKEOVER_S = 0.01
"""A cell that runs for longer than this is looked after."""
ALERT_S = 0.2
"""For so long after a cell the next one need not wake the thread: it looks by itself."""
ALERT_LOOKS = 5
"""How many times longer than for TAKEOVER_S it waits between two of these looks."""
STREAM_INTERVAL_S = 0.05
"""How often a running cell's output is looked at."""
IDLE_INTERVAL_S = 1.0
MOST_IDLE_S = 3.0
"""In a crowd, that is: orphans must notice it well within ORPHAN_AFTER_S."""
CROWD = 12
"""More ranks on a core look less often, in proportion: a look takes a tenth of a millisecond, or
two where hundreds of processes share the caches. Those of 512 ranks would keep two cores busy."""
MOST_CROWDED = IDLE_INTERVAL_S / STREAM_INTERVAL_S
ORPHAN_AFTER_S = 10.0
"""An engine whose coordinator is out of reach for so long ends itself, unless the coordinator waits
even longer for it, or is seen to live: on one machine it is not out of reach, but has no core."""


class Work(Protocol):
    """What the main thread does, as the link thread sees it."""

    def take_output(self) -> Message | None:
        """Return a message with what the running cell has said, or None."""

    def look(self) -> None:
        """Look after what the running cell has queued on devices."""


class Link(threading.Thread):
    """Looks after the channel, and what a cell says, while the main thread is busy."""

    def __init__(self, channel: Channel, work: Work, config: EngineConfig) -> None:
        super().__init__(name="link", daemon=True)
        self._channel, self._work = channel, work
        crowding = crowding_among(config.info.local_world_size)
        self._takeover_s = TAKEOVER_S * crowding
        self._stream_interval_s = STREAM_INTERVAL_S * crowding
        self._idle_interval_s = min(MOST_IDLE_S, IDLE_INTERVAL_S * crowding)
        self._coordinator_pid = config.coordinator_pid
        self._orphan_after_s = max(ORPHAN_AFTER_S, config.lost_after_s)
        self._next_look_s = 0.0
        self._sign = StackSign()
        self.builtins = BuiltinsGuard()
        self._own = select.poll()
        self._own.register(channel.link_waker.pollable, select.POLLIN)
        self._all = select.poll()
        self._all.register(channel.link_waker.pollable, select.POLLIN)

    def run(self) -> None:
        """Serve until the process ends; a rank that is out of reach must not live on."""
        try:
            self._sign.renew()  # from now on: threads made before do not bear this name
            self._all.register(self._channel.fileno, select.POLLIN)
            self._serve()
        except BaseException as error:  # noqa: BLE001  (whatever it is, the rank ends with it)
            end_with_own_error(error)

    def _serve(self) -> None:
        is_in_charge = False
        while True:
            try:
                is_new, is_in_charge = not is_in_charge, self._is_needed()
                if is_in_charge and is_new:
                    self._next_look_s = monotonic() + self._stream_interval_s
                    self._look_after()  # what came before was told to the main thread
                poll = self._all if is_in_charge else self._own
                ready = poll.poll(self._pause_ms(is_in_charge))
                self._channel.is_link_asleep = False
                if ready:
                    self._channel.link_waker.clear()
                is_in_charge = is_in_charge and self._is_needed()  # what has come may be for main
                if is_in_charge or self._channel.has_posted or monotonic() >= self._next_look_s:
                    self._look_after()
            except Exception:
                if not self.builtins.repair():  # a cell may have damaged what is needed here
                    raise

    def _is_needed(self) -> bool:
        """Return whether the main thread has been busy for a while, or user code has posted."""
        channel = self._channel
        return not channel.is_main_idle and monotonic() - channel.busy_since_s >= self._takeover_s

    def _pause_ms(self, is_in_charge: bool) -> int:
        """Return how long to wait; a cell that begins in a long pause ends it."""
        if is_in_charge:
            return round(self._stream_interval_s * 1000)
        channel = self._channel
        channel.is_link_asleep = True
        is_busy = not channel.is_main_idle
        if is_busy or monotonic() - channel.busy_since_s < ALERT_S:
            channel.is_link_asleep = False
            return round(self._takeover_s * (1 if is_busy else ALERT_LOOKS) * 1000)
        return max(1, round((self._next_look_s - monotonic()) * 1000))

    def _look_after(self) -> None:
        """Take charge for a moment; now and then, send what the running cell has said."""
        with self._channel.charge:
            self.builtins.repair()
            self._channel.serve()
            now_s = monotonic()
            if now_s >= self._next_look_s:
                is_busy = not self._channel.is_main_idle
                pause_s = self._stream_interval_s if is_busy else self._idle_interval_s
                self._next_look_s = now_s + min(pause_s, self._channel.look_interval_s)
                self._stream()
                self._channel.serve()

    def _stream(self) -> None:
        """Send what the running cell has said; end the process if the coordinator is gone."""
        self._work.look()
        self._sign.renew()
        said = self._work.take_output()
        if said is not None:
            self._channel.send(said)
        silence_s = self._channel.silence_s()
        if silence_s > self._orphan_after_s and not process_lives(self._coordinator_pid):
            end_out_of_reach(silence_s)


def crowding_among(ranks: int) -> float:
    """Return how much less often each of so many ranks looks than where they have cores enough."""
    return min(MOST_CROWDED, max(1.0, ranks / usable_cores() / CROWD))
