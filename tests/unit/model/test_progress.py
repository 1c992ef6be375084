from jupyter_dist.model.progress import RankProgress, explain
from jupyter_dist.model.topology import CollectiveView


def inside(rank, seconds=10.0, *, sequence=17, operation="all_reduce", site="In[3]:7"):
    view = CollectiveView(sequence, operation, seconds, is_running=True, site=site)
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
