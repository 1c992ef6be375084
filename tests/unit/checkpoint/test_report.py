from jupyter_dist.checkpoint.report import (
    RankRestored,
    RankSaved,
    merge_restored,
    merge_saved,
)

DIRECTORY = "/d/run"
STEP = "/d/run/step-00000003"


def saved(**more):
    fields = {"saved": ("weights", "step"), **more}
    return RankSaved(DIRECTORY, STEP, 3, 3 << 20, 0.25, **fields)


def restored(**more):
    fields = {"restored": ("weights",), **more}
    return RankRestored(STEP, 3, 2048, 0.5, **fields)


def test_what_a_rank_says_has_no_times_so_that_all_ranks_say_the_same():
    assert str(saved()) == f"saved weights, step (3 MiB on disk) as step 3: {STEP}"
    assert str(restored()) == f"restored weights (2 KiB) from step 3: {STEP}"


def test_all_ranks_are_put_together_with_the_longest_time():
    whole = merge_saved({0: saved(), 1: saved()})
    assert (whole.world_size, whole.nbytes, whole.saved) == (2, 3 << 20, ("weights", "step"))
    assert (
        str(whole)
        == f"saved weights, step of ranks 0-1 (3 MiB on disk) in 0.25 s as step 3: {STEP}"
    )
    again = merge_restored({0: restored(), 1: restored()})
    assert str(again) == f"restored weights on ranks 0-1 (2 KiB) in 0.50 s from step 3: {STEP}"


def test_what_is_written_in_the_background_is_not_called_saved():
    told = RankSaved(DIRECTORY, "", 4, 10, 0.0, ("w",))
    for text in (str(told), str(merge_saved({0: told}))):
        assert text.startswith("saving w ")
        assert "10 B" not in text, "nobody knows yet"
        assert f"as step 4 in {DIRECTORY}, while cells go on; should it fail" in text


def test_names_that_are_left_out_for_one_reason_stand_together():
    lock, socket = "cannot pickle '_thread.lock' object", "a socket"
    told = saved(left_out={"a": lock, "b": lock, "c": socket})
    assert str(told).splitlines()[1:] == [
        f"not saved: a, b ({lock})",
        "not saved: c (a socket)",
    ]


def test_ranks_whose_reasons_differ_are_named():
    told = {0: saved(left_out={"f": "one"}), 1: saved(left_out={"f": "two"}), 2: saved()}
    whole = merge_saved(told)
    assert whole.left_out == {"f": {"one": (0,), "two": (1,)}}
    assert str(whole).splitlines()[1:] == [
        "not saved: f on rank 0 (one)",
        "not saved: f on rank 1 (two)",
    ]


def test_names_of_all_ranks_are_told_once():
    told = {0: saved(saved=("a", "b")), 1: saved(saved=("b", "c"))}
    assert merge_saved(told).saved == ("a", "b", "c")


def test_notes_of_some_ranks_name_them_and_those_of_all_do_not():
    told = {
        0: restored(notes=("all know this", "rank 4 had no part")),
        1: restored(notes=("all know this",), not_restored={"model": "it needs --objects"}),
    }
    assert str(merge_restored(told)).splitlines()[1:] == [
        "not restored: model on rank 1 (it needs --objects)",
        "all know this",
        "rank 0: rank 4 had no part",
    ]


def test_a_hundred_reasons_are_cut_but_stay_in_the_report():
    told = saved(left_out={f"n{k}": f"reason {k}" for k in range(100)})
    assert len(str(told).splitlines()) == 14
    assert str(told).endswith("not saved: 88 more, in the report")
    assert len(merge_saved({0: told}).left_out) == 100


def test_nothing_is_called_nothing():
    assert str(saved(saved=())).startswith("saved nothing (")
