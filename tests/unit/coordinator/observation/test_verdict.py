"""Every situation has its verdict in verdicts.txt, to be read and judged by people.

To write that file again after a change: REWRITE_GOLDEN=1 python -m pytest tests/unit/coordinator/observation/test_verdict.py
"""

import os
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.coordinator.observation.rank_snapshot import RankSnapshot
from jupyter_dist.coordinator.observation.verdict import judge
from jupyter_dist.model.hosts.topology import CollectiveView

from .situations import (
    LOAD,
    SITUATIONS,
    computing,
    ended,
    inside,
    view,
)

GOLDEN = Path(__file__).parent / "verdicts.txt"
TITLE = "Situations of ranks, and what is said of them. Written by test_verdict.py."

any_call = st.builds(
    CollectiveView,
    sequence=st.integers(1, 3),
    operation=st.sampled_from(["all_reduce", "broadcast", "send", "recv", "send_recv", "group"]),
    seconds=st.floats(0.0, 30.0),
    is_running=st.booleans(),
    group=st.sampled_from(["", "0-1", "1-2", "0,5"]),
    root=st.integers(-1, 3),
)
any_rank = st.builds(
    RankSnapshot,
    rank=st.just(0),
    host=st.sampled_from(["a", "b"]),
    status=st.sampled_from(["running", "running", "running", "ok", "raised", "lost"]),
    collective=st.none() | any_call,
    busy_s=st.floats(0.0, 30.0),
    asks=st.sampled_from(["", "", "waits for input", "waits to ask for input"]),
    stopped_at=st.sampled_from(["", "", "", "In[5]:4"]),
    task=st.sampled_from(["", "", "apply f"]),
    stack=st.sampled_from(
        [*(each[0].stack for each in SITUATIONS.values()), computing(0, *LOAD).stack]
    ),
    stack_s=st.floats(0.0, 30.0),
    is_unresponsive=st.booleans(),
    process_state=st.sampled_from(["", "R", "S", "D", "T"]),
    process_state_s=st.floats(0.0, 30.0),
    cpu_percent=st.floats(0.0, 100.0),
    major_faults_per_s=st.sampled_from([0.0, 900.0]),
    silence_s=st.sampled_from([0.0, 5.0]),
)


def describe(rank):
    """One line for what was seen of a rank."""
    parts = [rank.status]
    if rank.error:
        parts.append(rank.error)
    if rank.collective is not None:
        parts.append(describe_call(rank.collective))
    if aside := rank.asks or (rank.stopped_at and f"in the debugger at {rank.stopped_at}"):
        parts.append(aside)
    if rank.task:
        parts.append(f"task {rank.task} for {rank.task_s:g} s")
    if rank.is_unresponsive:
        parts.append("unresponsive")
    if rank.process_state:
        parts.append(
            f"{rank.process_state} {rank.process_state_s:g} s, {rank.cpu_percent:.0f}% CPU"
        )
    if rank.major_faults_per_s:
        parts.append(f"{rank.major_faults_per_s:.0f} faults/s")
    if rank.silence_s:
        parts.append(f"silent for {rank.silence_s:g} s")
    if rank.stack:
        parts.append(f"since {rank.stack_s:g} s at {' > '.join(map(str, rank.stack))}")
    return f"  {rank.rank}@{rank.host}  {'; '.join(parts)}"


def describe_call(view):
    arguments = f"({view.arguments})" if view.arguments else ""
    group = f" of {view.group}" if view.group else ""
    how = f"in for {view.seconds:g} s" if view.is_running else "left"
    return f"{view.operation}{arguments} #{view.sequence}{group} ({view.site}) {how}"


def write_situation(name, ranks):
    verdict = judge(ranks)
    said = f"{verdict.kind}: {verdict.text}" if verdict.text else "(nothing)"
    wants = ",".join(map(str, verdict.wants_stacks))
    looks = [f"  wants to see the stacks of: {wants}"] if wants else []
    return "\n".join([name, "-" * len(name), *map(describe, ranks), f"=> {said}", *looks])


def test_every_situation_has_the_verdict_of_the_golden_file():
    parts = [write_situation(name, ranks) for name, ranks in SITUATIONS.items()]
    written = "\n\n".join([TITLE, *parts]) + "\n"
    if os.environ.get("REWRITE_GOLDEN"):
        GOLDEN.write_text(written)
    assert written == GOLDEN.read_text()


def test_a_short_wait_is_not_worth_a_word():
    assert judge([inside(0, seconds=2.9), computing(1)]).text == ""
    assert judge([inside(0, seconds=3.0), computing(1)]).text != ""


def test_who_is_missing_is_looked_at_before_patience_is_over():
    assert judge([inside(0, seconds=1.0), computing(1, busy_s=1.0)]).wants_stacks == (1,)
    assert judge([inside(0, seconds=0.9), computing(1, busy_s=1.0)]).wants_stacks == ()


def test_nobody_is_looked_at_in_a_short_cell():
    assert judge([computing(0, busy_s=2.0), computing(1, busy_s=2.0)]).wants_stacks == ()


def test_of_very_many_ranks_some_are_looked_at():
    ranks = [RankSnapshot(rank=rank, busy_s=20.0) for rank in range(1000)]
    assert judge(ranks).wants_stacks == tuple(range(64))


def test_of_very_many_calls_some_are_told():
    ring = [
        RankSnapshot(rank=rank, collective=view("send", arguments=f"dest={after}", root=after))
        for rank, after in ((rank, (rank + 1) % 500) for rank in range(500))
    ]
    *told, rest, circle, _ = judge(ring).text.split("; ")
    assert len(told) == 6
    assert all(f"rank {rank} " in text for rank, text in enumerate(told))
    assert rest.startswith("494 ")
    assert "0-499" in circle


def test_what_was_left_early_is_given_time():
    left = CollectiveView(17, "broadcast", 0.1, is_running=False)
    for seconds, is_told in ((6.0, False), (11.0, True)):
        ranks = [computing(0, collective=left), inside(1, "broadcast", seconds=seconds)]
        assert bool(judge(ranks).text) is is_told


def test_who_has_ended_and_may_have_left_it_early_is_no_proof_of_a_hang():
    last = CollectiveView(2, "barrier", 0.1, is_running=False, group="0-1")
    for seconds, kind in ((9.0, ""), (10.0, "unsure")):
        ranks = [ended(0, collective=last), inside(1, "broadcast", seconds=seconds)]
        verdict = judge(ranks)
        assert verdict.kind == kind
        assert "releases" not in verdict.text
    assert judge([ended(0, collective=last), inside(1, seconds=3.0)]).kind == "hang"


@given(ranks=st.lists(any_rank, min_size=1, max_size=8))
def test_a_verdict_is_one_line_and_never_fails(ranks):
    numbered = [msgspec.structs.replace(rank, rank=number) for number, rank in enumerate(ranks)]
    verdict = judge(numbered)
    assert "\n" not in verdict.text
    assert "{" not in verdict.text
    assert bool(verdict.text) == bool(verdict.kind)
    running = {rank.rank for rank in numbered if rank.is_running}
    assert set(verdict.wants_stacks) <= running


def test_ranks_in_different_calls_may_meet_until_both_were_looked_at_again():
    crossing = [inside(0), inside(1, number=18, seconds=3.0)]
    assert judge(crossing).text
    assert judge(crossing, look_interval_s=1.5).text
    assert not judge(crossing, look_interval_s=1.6).text
