"""The agent's hand on its zygote: births go down, events come up.

What the agent imports before the zygote is started keeps all ranks waiting, so there is little of
it at the top of this module.
"""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from jupyter_dist.launch.processes.descendants import end_children
from jupyter_dist.model.spec.rank_environment import (
    HASH_SEED,
    HASH_SEED_VARIABLE,
    THREAD_VARIABLES,
)

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_dist.protocol.births import EngineConfig, ZygoteEvent

ORPHANS_TIMEOUT_S = 2.0
"""In which what the ranks of a killed zygote have started must have ended."""
_LOGGED_BYTES = 1000


class ZygoteProcess:
    """Starts the zygote at once, so that it imports while the agent does."""

    def __init__(self, start_method: str) -> None:
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "jupyter_dist.engine.zygote"),
                *(str(os.getpid()), start_method),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            # A BLAS that starts threads while it is imported would make forking unsafe; each
            # engine gets its share of cores after it was forked (engine/launch_config.py). The
            # host's own hash seed does not count: sets must have one order on all hosts.
            env={
                **os.environ,
                **dict.fromkeys(THREAD_VARIABLES, "1"),
                HASH_SEED_VARIABLE: HASH_SEED,
            },
        )

    def move_in(self, run_dir: "Path") -> None:
        """Tell it the private directory of this host, which it waits for once it has awoken."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `listen` will tell
            self._process.stdin.write(os.fsencode(run_dir) + b"\n")
            self._process.stdin.flush()

    def listen(self, on_event: "Callable[[ZygoteEvent], None]", on_end: Callable[[], None]) -> None:
        """Hand each event over from a thread, and tell when the zygote has ended."""
        import traceback

        import msgspec

        from jupyter_dist.protocol.births import ZygoteEvent

        def read() -> None:
            assert self._process.stdout is not None
            for line in self._process.stdout:
                try:
                    on_event(msgspec.json.decode(line, type=ZygoteEvent))
                except Exception:  # noqa: BLE001  (the next one may tell how an engine ended)
                    sys.stderr.write(f"{line[:_LOGGED_BYTES]!r}: {traceback.format_exc()}")
            on_end()
            end_children(ORPHANS_TIMEOUT_S, is_marked_only=True)  # they fell to this process

        threading.Thread(target=read, name="zygote-events", daemon=True).start()

    def start_engines(self, births: "Iterable[EngineConfig]") -> None:
        """Ask for these engines."""
        import msgspec

        from jupyter_dist.protocol.births import ZygoteRequest

        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(ZygoteRequest(tuple(births))) + b"\n")
        self._process.stdin.flush()

    def end(self, timeout_s: float) -> None:
        """Let it end its engines and itself; kill it when it does not (the engines follow)."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(timeout_s)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self._process.kill()
            self._process.wait()
        end_children(ORPHANS_TIMEOUT_S, is_marked_only=True)
