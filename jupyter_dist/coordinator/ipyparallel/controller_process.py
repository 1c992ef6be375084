"""The process of this cluster's ipyparallel controller, as the coordinator's loop sees it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from jupyter_dist.frameworks.ipyparallel.controller_messages import (
    End,
    Open,
    Order,
    Told,
    Unregister,
    heart_period_ms,
)
from jupyter_dist.launch.processes.private_dir import make_private_dir
from jupyter_dist.protocol.unreadable import Unreadable, log_unreadable
from jupyter_dist.text.said_lines import last_lines

_MODULE = "jupyter_dist.frameworks.ipyparallel.controller"
_CHUNK_BYTES = 1 << 16


class ControllerProcess:
    """Started from the main thread, see lifeline.py; nothing here waits, but `close` for a moment.

    Its directory belongs to this process, and is removed with it or by the next coordinator.
    """

    def __init__(self, engine_address: str, ports: Sequence[int], world_size: int) -> None:
        self._dir = make_private_dir()
        self._decoder = msgspec.json.Decoder(Told)
        self._rest = b""
        # What a user has set for other controllers, as their keys, is not meant for this one.
        env = {name: value for name, value in os.environ.items() if not name.startswith("IPP_")}
        try:
            with (self._dir / "controller.log").open("wb") as log:
                self._process = subprocess.Popen(
                    [
                        *(sys.executable, "-P", "-m", "jupyter_dist.launch.processes.process_life"),
                        *(str(os.getpid()), _MODULE),
                    ],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,
                    env=env,
                )
        except OSError:
            shutil.rmtree(self._dir, ignore_errors=True)
            raise
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        period_ms = heart_period_ms(world_size)
        self.order(Open(str(self._dir / "profile"), engine_address, tuple(ports), period_ms))

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """It has not ended."""
        return self._process.poll() is None

    def order(self, order: Order) -> None:
        """Tell it what to do; one that has ended is found by `is_running`."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(msgspec.json.encode(order) + b"\n")
            self._process.stdin.flush()

    def unregister(self, ranks: Sequence[int]) -> None:
        """Have it forget engines that are gone; it says so when it has."""
        self.order(Unregister(tuple(ranks)))

    def hear(self) -> list[Told]:
        """Return what it has told since the last time."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        with suppress(BlockingIOError):
            while chunk := os.read(descriptor, _CHUNK_BYTES):
                self._rest += chunk
        *lines, self._rest = self._rest.split(b"\n")
        return [told for line in lines for told in self._read(line)]

    def _read(self, line: bytes) -> list[Told]:
        """Read a line; one that cannot be read goes into the log."""
        try:
            return [self._decoder.decode(line)]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            log_unreadable(Unreadable(line, f"the ipyparallel controller said: {error}"))
            return []

    def explain(self) -> str:
        """Return how it ended, with what it said last."""
        status = self._process.poll()
        log = self._dir / "controller.log"
        text = last_lines(log.read_text(errors="replace")) if log.exists() else ""
        said = f". It said last:\n{text}" if text else ""
        return f"its process ended with status {status}{said}"

    def end(self) -> None:
        """Ask it to tell its clients that it is over, and to end."""
        self.order(End())

    def close(self, patience_s: float = 0.0) -> None:
        """End it now, at the latest after so long, and remove what it has written."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(patience_s)
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
        shutil.rmtree(self._dir, ignore_errors=True)
