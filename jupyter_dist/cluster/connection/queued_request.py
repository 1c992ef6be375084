"""Ask for something that waits at the fence until its ranks are idle, and tell why meanwhile."""

from collections.abc import Callable

from jupyter_dist.cluster.connection.connection import Answer, Connection
from jupyter_dist.protocol.messages import (
    CellWaiting,
    HealProgress,
    HealRanks,
    ShrinkCluster,
    ToClient,
    WithdrawCell,
)

OnStage = Callable[[str], None]
CANCELLED_WHILE_QUEUED = (
    "what was queued is cancelled; what has begun goes on; %dist_status shows it"
)
"""What is said when someone does not wait any longer."""


def ask_at_fence(
    line: Connection,
    request: HealRanks | ShrinkCluster,
    answer_type: type[Answer],
    on_word: OnStage | None = None,
) -> Answer:
    """Send a request and wait for its answer; `on_word` gets each sentence about the wait.

    Ctrl-C takes the request back if it has not begun. Raises what `Line.ask` raises.
    """

    def pass_on(message: ToClient) -> None:
        if on_word is None:
            return
        if isinstance(message, CellWaiting):
            on_word(message.reason)
        elif isinstance(message, HealProgress):
            on_word(message.stage)

    with line.lock:  # outside the try: who waits for another thread has sent nothing yet
        try:
            return line.ask(request, answer_type, on_other=pass_on)[0]
        except KeyboardInterrupt:
            line.send(WithdrawCell(request.request_id))
            raise KeyboardInterrupt(CANCELLED_WHILE_QUEUED) from None
