from fakes.cluster import HEALED


def test_what_runs_is_interrupted(dist, demo):
    assert dist("interrupt", "demo", "--ranks", "0,2-3") == (0, "interrupted ranks 0-1\n", "")
    assert demo.calls == [("interrupt", (0, 2, 3))]
    demo.busy = ()
    assert dist("interrupt")[1] == "nothing was running\n"


def test_lost_ranks_are_replaced_and_what_they_lack_is_told(dist, demo):
    status, out, _ = dist("heal", "demo")
    assert status == 0
    assert demo.calls == [("heal", None)]
    stage, *told = out.splitlines()
    assert (" rank 2 " in stage, told) == (True, str(HEALED).splitlines())


def test_healing_that_fails_gives_the_reason_and_status_1(dist, demo):
    status, _, err = dist("heal", "--ranks", "3")
    assert (status, "rank 3 " in err) == (1, True)


def test_the_cluster_goes_on_without_lost_ranks(dist, demo):
    status, out, err = dist("shrink", "demo")
    assert (status, err) == (0, "")
    stage, *told = out.splitlines()
    assert (" rank 0 " in stage, told) == (True, [str(demo.shrink(on_stage=str))])
