"""Every situation has its verdict in verdicts.txt, to be read and judged by people.

To write that file anew after a change: REWRITE_GOLDEN=1 python -m pytest tests/unit/model/test_verdict.py
"""

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.model.rank_seen import RankSeen
from jupyter_dist.model.topology import CollectiveView
from jupyter_dist.model.verdict import judge

from .situations import (
    JAX,
    LOAD,
    PACKAGES,
    SITUATIONS,
    computing,
    ended,
    inside,
    resting,
    seen,
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
    RankSeen,
    rank=st.just(0),
    host=st.sampled_from(["a", "b"]),
    status=st.sampled_from(["running", "running", "running", "ok", "raised", "lost"]),
    collective=st.none() | any_call,
    busy_s=st.floats(0.0, 30.0),
    task=st.sampled_from(["", "", "apply f"]),
    stack=st.sampled_from(
        [*(each[0].stack for each in SITUATIONS.values()), computing(0, *LOAD).stack]
    ),
    stack_s=st.floats(0.0, 30.0),
    is_deaf=st.booleans(),
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
    if rank.task:
        parts.append(f"task {rank.task} for {rank.task_s:g} s")
    if rank.is_deaf:
        parts.append("deaf")
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
    ranks = [RankSeen(rank=rank, busy_s=20.0) for rank in range(1000)]
    assert judge(ranks).wants_stacks == tuple(range(64))


def test_of_very_many_calls_some_are_told():
    ring = [
        RankSeen(rank=rank, collective=view("send", arguments=f"dest={after}", root=after))
        for rank, after in ((rank, (rank + 1) % 500) for rank in range(500))
    ]
    text = judge(ring).text
    assert text.startswith("rank 0 waits in send(dest=1) (In[5]:7) for 12 s; ")
    assert text.endswith(
        "; 494 more ranks wait in other calls; ranks 0-499 wait for each other; ■ releases them"
    )
    assert text.count("waits in") == 6


def test_only_what_is_odd_counts_for_patience():
    whole = [inside(rank, seconds=6.0, group="0-1") for rank in range(2)]
    assert judge([*whole, inside(2, seconds=1.0, group="2-3"), computing(3)]).text == ""


def test_a_rank_that_ended_does_not_wait_even_if_its_record_says_so():
    assert judge([inside(0, status="lost"), computing(1)]).text == ""


def test_a_group_whose_name_was_shortened_is_not_guessed_at():
    assert judge([inside(0, seconds=5.0, group="0,2,4…196,198"), computing(1)]).text == ""


def test_two_groups_of_the_same_ranks_are_different_groups():
    text = judge([inside(0, group="0-1"), inside(1, group="0-1~2")]).text
    assert text.count("of group 0-1 ") == 2
    assert "ranks 0-1 wait for each other" in text


def test_groups_that_are_complete_do_not_contradict_each_other():
    pairs = [
        inside(rank, number=rank // 2, seconds=5.0, group=f"{rank // 2 * 2}-{rank // 2 * 2 + 1}")
        for rank in range(4)
    ]
    assert judge(pairs).text == ""


def test_who_sits_in_a_complete_group_has_not_called_what_others_wait_in():
    ranks = [inside(0, group="0-1"), inside(1, group="0-1"), inside(2), inside(3)]
    assert judge(ranks).text == (
        "ranks 2-3 wait in all_reduce #17 (In[5]:7) for 12 s; "
        "ranks 0-1 have not called it yet: they are in all_reduce #17 of group 0-1"
    )


def test_messages_of_many_ranks_to_one_are_one_clause():
    root = ended(0)
    ranks = [root, *(inside(rank, "recv", rank, root=0, arguments="source=0") for rank in (1, 2))]
    assert judge(ranks).text.startswith("ranks 1-2 wait in recv(source=0) (In[5]:7) for 12 s; ")


@pytest.mark.parametrize("operation", ["send_recv", "group"])
def test_messages_both_ways_are_not_guessed_at(operation):
    ranks = [inside(0, operation, seconds=5.0, root=1), inside(1, operation, seconds=5.0, root=0)]
    assert judge(ranks).text == ""


def test_numbers_of_messages_of_collectives_and_of_objects_are_not_compared():
    barrier = CollectiveView(40, "barrier_object", 0.1, is_running=False)
    text = judge([inside(0), computing(1, collective=barrier)]).text
    assert "rank 1 has not called it yet" in text


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


def test_an_interrupt_is_not_said_to_release_ranks_from_a_framework():
    alone = judge([resting(0, *JAX), ended(1)]).text
    assert alone.endswith("; ■ may not reach it; %dist_heal --ranks 0 replaces it if it stays deaf")
    both = judge([resting(0, *JAX), ended(1), resting(2, *JAX)]).text
    assert both.endswith(
        "; ■ may not reach them; %dist_heal --ranks 0,2 replaces those that stay deaf"
    )


@pytest.mark.parametrize("rank", [computing, ended])
def test_numbers_of_an_earlier_communicator_mean_nothing(rank):
    before = CollectiveView(
        40, "all_reduce", 0.1, is_running=False, site="In[4]:2", is_earlier=True
    )
    text = judge([inside(0), rank(1, collective=before)]).text
    assert "called it" in text
    assert "In[4]" not in text


def test_code_with_braces_and_long_code_are_shown_as_they_are():
    text = judge(
        [inside(0), computing(1, "In[5]:3: x = {k: f'{k}' for k in range(10_000_000)}")]
    ).text
    assert "at In[5]:3 (`x = {k: f'{k}' for k in range(10_000_00…`)" in text


def test_an_idle_rank_is_not_said_to_compute():
    assert "comput" not in judge([inside(0), seen(1, "In[5]:3: f()")]).text
    assert "without computing" in judge([inside(0), resting(1, "In[5]:3: f()")]).text


def test_a_line_that_computes_does_not_wait_for_the_lock_that_it_names():
    text = judge([inside(0), computing(1, "In[5]:3: with lock: work()")]).text
    assert "still computes at In[5]:3" in text
    assert "waits for a lock" not in text


def test_a_data_set_that_is_read_in_the_rank_itself_computes():
    loader = f"{PACKAGES}/torch/utils/data/dataloader.py:789 _next_data"
    text = judge([inside(0), computing(1, *LOAD, loader, "In[2]:4 __getitem__: decode(path)")]).text
    assert "still computes at In[2]:4 in __getitem__ (`decode(path)`)" in text


def test_stopped_processes_on_several_hosts_are_not_said_to_be_on_one():
    stopped = {"process_state": "T", "process_state_s": 3.0}
    text = judge([seen(3, **stopped), seen(4, **stopped), computing(5)]).text
    assert text.endswith("(`kill -CONT 4713 4714` lets them go on)")


def test_a_host_is_not_said_to_be_silent_while_one_of_its_ranks_is_heard():
    text = judge([seen(4, silence_s=5.0), computing(5)]).text
    assert text == "rank 4 has not been heard for 5 s"


@given(ranks=st.lists(any_rank, min_size=1, max_size=8))
def test_a_verdict_is_one_line_and_never_fails(ranks):
    numbered = [msgspec.structs.replace(rank, rank=number) for number, rank in enumerate(ranks)]
    verdict = judge(numbered)
    assert "\n" not in verdict.text
    assert "{" not in verdict.text
    assert bool(verdict.text) == bool(verdict.kind)
    running = {rank.rank for rank in numbered if rank.is_running}
    assert set(verdict.wants_stacks) <= running


def test_what_a_rank_raised_is_told_on_one_short_line():
    text = judge([inside(0), ended(1, "raised", error="ValueError: {be}\n" + 200 * "x")]).text
    assert "; rank 1 raised ValueError: {be} xxxx" in text
    assert "xxx…; ■" in text


def test_user_code_in_a_file_with_a_name_of_pythons_is_not_taken_for_waiting():
    text = judge([inside(0), computing(1, *LOAD, "/home/me/queue.py:9 get: sort(rows)")]).text
    assert "still computes at queue.py:9 in get (`sort(rows)`), called at In[2]:9" in text


def test_braces_in_the_name_of_a_task_stay():
    text = judge([inside(0), computing(1, task="apply {f}", task_s=4.0)]).text
    assert "it runs an ipyparallel task (apply {f}) for 4 s and has not begun this cell" in text
