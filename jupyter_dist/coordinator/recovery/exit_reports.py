"""How an engine ended: everything known as a report, and what it had said last."""

import msgspec

from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.coordinator.state.roster import EngineRecord
from jupyter_dist.model.ranks.crashes.crash import CrashReport
from jupyter_dist.model.ranks.crashes.crash_diagnosis import conclude
from jupyter_dist.model.ranks.crashes.crash_traces import cell_line, read_traces, without_stacks
from jupyter_dist.model.ranks.end_marks import read_end_mark
from jupyter_dist.model.ranks.records import CallRecord
from jupyter_dist.model.ranks.signals import RankSignal
from jupyter_dist.model.ranks.source_files import name_cells
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import Output, RankOutput
from jupyter_dist.protocol.unreadable import read_or

_CALLS = msgspec.msgpack.Decoder(tuple[CallRecord, ...])


def report_loss(engine: EngineRecord, reason: str) -> CrashReport:
    """Report an engine whose end nobody has seen."""
    info = engine.info
    cell = engine.cell_label
    return CrashReport(rank=info.rank, host=info.host, pid=engine.pid, reason=reason, cell=cell)


def report_exit(
    exited: pb.EngineExited, engine: EngineRecord, memory_total_bytes: int
) -> CrashReport:
    """Report an end that its agent has seen; `memory_total_bytes` is that of the host."""
    if exited.signal and not exited.pid:
        reason = "the process that all engines of its host come from (the zygote) is gone"
        return report_loss(engine, reason)
    if not exited.pid:
        why = exited.stderr_tail.decode("utf-8", "backslashreplace")
        return report_loss(engine, f"its process could not be started: {why}")
    said = _said_since(exited, engine)
    traces, mark = read_traces(said), read_end_mark(said)
    evidence = exited.evidence
    report = msgspec.structs.replace(
        report_loss(engine, ""),
        pid=exited.pid,
        exit_code=exited.exit_code,
        end_cause=mark.cause if mark is not None else "",
        end_detail=mark.detail if mark is not None else "",
        signal=exited.signal,
        line=cell_line(traces.stacks),
        oom_kills=evidence.oom_kills,
        memory_limit_bytes=evidence.memory_limit_bytes,
        address_limit_bytes=evidence.address_limit_bytes,
        memory_available_bytes=evidence.memory_available_bytes,
        memory_total_bytes=memory_total_bytes,
        is_shared_memory_full=evidence.is_shared_memory_full,
        rss_history=tuple((sample.age_s, sample.rss_bytes) for sample in evidence.memory),
        stderr=traces.stderr,
        stacks=traces.stacks,
        calls=read_or(_CALLS, evidence.calls, ()),
        kernel=tuple(evidence.kernel),
        gpu_errors=tuple(evidence.gpu_errors),
    )
    if engine.is_condemned and exited.signal == RankSignal.SIGKILL:
        return msgspec.structs.replace(report, reason="it was killed to be replaced (%dist_heal)")
    return msgspec.structs.replace(report, reason=conclude(report))


def last_words(exited: pb.EngineExited, engine: EngineRecord) -> RankOutput | None:
    """Return what the engine had written to its streams but not sent any more."""
    if not exited.pid and not exited.signal:
        return None  # it was never there; the report says why
    outputs = []
    tails: list[tuple[str, bytes, int, int]] = [
        ("stdout", exited.stdout_tail, exited.stdout_offset, engine.offsets[0]),
        ("stderr", exited.stderr_tail, exited.stderr_offset, engine.offsets[1]),
    ]
    for kind, tail, tail_offset, sent in tails:
        unsent = _since(tail, tail_offset, sent)
        if unsent:
            text = name_cells(without_stacks(unsent.decode("utf-8", "backslashreplace")))
            text = _say_omitted(tail_offset - sent) + text
            if text:
                outputs.append(Output(kind, text))
    return RankOutput((engine.info.rank,), tuple(outputs)) if outputs else None


def _say_omitted(omitted_bytes: int) -> str:
    """Say that something is missing before what follows; only its host's log has it."""
    if omitted_bytes <= 0:
        return ""
    return f"\n[{omitted_bytes} bytes that it had not sent before its end are in its host's log]\n"


def _said_since(exited: pb.EngineExited, engine: EngineRecord) -> str:
    """Return what it wrote to stderr in its cell, or since its last one."""
    is_busy = engine.state is EngineState.BUSY
    start = (engine.offsets_before if is_busy else engine.offsets)[1]
    said = _since(exited.stderr_tail, exited.stderr_offset, start)
    return said.decode("utf-8", "backslashreplace")


def _since(tail: bytes, tail_offset: int, start: int) -> bytes:
    """Return what follows the first `start` bytes of a stream, as far as its tail has it."""
    return tail[max(0, start - tail_offset) :] if start < tail_offset + len(tail) else b""
