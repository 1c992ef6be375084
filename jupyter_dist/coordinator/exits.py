"""How an engine ended, in words: its exit as a sentence, and what it had said last."""

import signal

from jupyter_dist.coordinator.roster import EngineRecord
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import Output, RankOutput


def describe_exit(exit_code: int, signal_number: int) -> str:
    """Say how a process ended."""
    if not signal_number:
        return f"its process exited with code {exit_code}"
    try:
        name = signal.Signals(signal_number).name
    except ValueError:
        name = f"signal {signal_number}"
    hint = " (on Linux often: out of memory)" if signal_number == signal.SIGKILL else ""
    return f"its process was killed by {name}{hint}"


def last_words(exited: pb.EngineExited, engine: EngineRecord) -> RankOutput | None:
    """Give what the engine had written to its streams but not sent any more."""
    outputs = []
    tails: list[tuple[str, bytes, int, int]] = [
        ("stdout", exited.stdout_tail, exited.stdout_offset, engine.offsets[0]),
        ("stderr", exited.stderr_tail, exited.stderr_offset, engine.offsets[1]),
    ]
    for kind, tail, tail_offset, sent in tails:
        unsent = tail[max(0, sent - tail_offset) :] if sent < tail_offset + len(tail) else b""
        if unsent:
            outputs.append(Output(kind, unsent.decode("utf-8", "backslashreplace")))
    return RankOutput(exited.rank, tuple(outputs)) if outputs else None
