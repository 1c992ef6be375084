from jupyter_dist.model.progress import RankProgress, explain
from jupyter_dist.model.topology import CollectiveView


def inside(rank, seconds=10.0, *, sequence=17, operation="all_reduce", site="In[3]:7", group=""):
    view = CollectiveView(sequence, operation, seconds, is_running=True, site=site, group=group)
    return RankProgress(rank, "running", view)


def computing(rank):
    return RankProgress(rank, "running", CollectiveView(16, "barrier", 0.1, is_running=False))


def test_ranks_that_all_compute_are_not_worth_a_word():
    assert explain([computing(0), RankProgress(1, "running")]) == ""


def test_ranks_that_all_sit_in_the_same_collective_are_not_worth_a_word():
    assert explain([inside(0), inside(1)]) == ""


def test_a_short_wait_is_not_worth_a_word():
    assert explain([inside(0, 2.9), computing(1)]) == ""
    assert explain([inside(0, 3.0), computing(1)]) != ""


def test_patience_can_be_chosen():
    assert explain([inside(0, 1.0), computing(1)], patience_s=0.5) != ""


def test_who_waits_where_and_who_has_not_come_is_told():
    assert explain([inside(0), inside(1), inside(3), computing(2)]) == (
        "ranks 0-1,3 wait in all_reduce #17 (In[3]:7) for 10 s; rank 2 has not called it yet"
    )


def test_a_rank_that_finished_the_cell_will_never_come():
    text = explain([inside(0), RankProgress(1, "ok"), RankProgress(2, "ok")])
    assert text.endswith("ranks 1-2 finished the cell and never called it")
    assert text.startswith("rank 0 waits in")


def test_ranks_that_ended_badly_are_told_with_their_status():
    text = explain([inside(0), RankProgress(1, "raised"), RankProgress(2, "lost"), computing(3)])
    assert "rank 3 has not called it yet" in text
    assert "rank 1 ended (raised)" in text
    assert "rank 2 ended (lost)" in text


def test_ranks_in_different_collectives_are_told_apart():
    text = explain([inside(0), inside(1, 4.0, sequence=18, operation="barrier", site="")])
    assert text == (
        "rank 0 waits in all_reduce #17 (In[3]:7) for 10 s; rank 1 waits in barrier #18 for 4 s"
    )


def test_a_rank_that_ended_does_not_wait_even_if_its_record_says_so():
    view = CollectiveView(17, "all_reduce", 99.0, is_running=True)
    assert RankProgress(0, "lost", view).waiting_in is None
    assert explain([RankProgress(0, "lost", view), computing(1)]) == ""


# --- communicators that were split off ---


def test_a_group_waits_for_its_own_members_only():
    ranks = [inside(0, 4.0, sequence=3, group="0-1,3"), computing(1), computing(2)]
    ranks.append(inside(3, 2.0, sequence=3, group="0-1,3"))
    assert explain(ranks) == (
        "ranks 0,3 wait in all_reduce #3 of group 0-1,3 (In[3]:7) for 4 s; "
        "rank 1 has not called it yet"
    )


def test_groups_that_are_complete_do_not_contradict_each_other():
    pairs = [
        inside(rank, sequence=rank // 2, group=f"{rank // 2 * 2}-{rank // 2 * 2 + 1}")
        for rank in range(4)
    ]
    assert explain(pairs) == ""
    assert explain([*pairs[:2], computing(2), computing(3)]) == ""


def test_each_group_is_told_of_with_those_it_waits_for():
    ranks = [inside(0, 5.0, group="0-1"), computing(1), inside(2, 9.0, group="2-3"), computing(3)]
    assert explain(ranks) == (
        "rank 0 waits in all_reduce #17 of group 0-1 (In[3]:7) for 5 s; "
        "rank 1 has not called it yet; "
        "rank 2 waits in all_reduce #17 of group 2-3 (In[3]:7) for 9 s; "
        "rank 3 has not called it yet"
    )


def test_who_sits_in_a_complete_group_has_not_called_what_others_wait_in():
    ranks = [inside(0, group="0-1"), inside(1, group="0-1"), inside(2), inside(3)]
    assert explain(ranks) == (
        "ranks 2-3 wait in all_reduce #17 (In[3]:7) for 10 s; ranks 0-1 have not called it yet"
    )


def test_who_is_listed_as_waiting_is_not_told_of_twice():
    ranks = [inside(0, 4.0, sequence=3, group="0-1"), inside(1), inside(2), inside(3)]
    assert explain(ranks) == (
        "ranks 1-3 wait in all_reduce #17 (In[3]:7) for 10 s; "
        "rank 0 waits in all_reduce #3 of group 0-1 (In[3]:7) for 4 s"
    )


def test_two_groups_of_the_same_ranks_are_different_groups():
    ranks = [inside(0, group="0-1"), inside(1, group="0-1~2")]
    assert explain(ranks).count("of group 0-1 ") == 2
    assert "not called" not in explain(ranks)


def test_members_of_a_group_in_different_calls_are_told_apart():
    ranks = [inside(0, group="0-1"), inside(1, sequence=18, group="0-1"), computing(2)]
    text = explain(ranks)
    assert "all_reduce #17 of group 0-1" in text
    assert "all_reduce #18 of group 0-1" in text
    assert "rank 2" not in text


def test_a_member_that_ended_is_told_with_its_status():
    ranks = [inside(0, group="0-1"), RankProgress(1, "ok"), RankProgress(2, "raised")]
    assert explain(ranks).endswith("; rank 1 finished the cell and never called it")


def test_a_member_that_does_not_run_the_cell_will_never_come():
    assert explain([inside(0, group="0,2"), computing(1)]).endswith(
        "; rank 2 does not run this cell"
    )


def test_a_cell_on_some_ranks_is_explained_by_those_alone():
    assert explain([inside(1), inside(3)]) == ""
    assert explain([inside(1), computing(3)]).endswith("; rank 3 has not called it yet")


def test_patience_counts_for_what_is_odd_only():
    whole = [inside(0, 60.0, group="0-1"), inside(1, 60.0, group="0-1")]
    assert explain([*whole, inside(2, 1.0, group="2-3"), computing(3)]) == ""


def test_a_group_whose_name_was_shortened_is_not_guessed_at():
    assert explain([inside(0, group="0,2,4…196,198"), computing(1)]) == ""
