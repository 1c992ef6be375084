from jupyter_dist.engine.progress_bars import SHOW_INTERVAL_S, ProgressBars


def states(bars, now_s, *, is_final=False):
    taken = bars.take(now_s, is_final=is_final)
    assert {output.kind for output in taken} <= {"progress"}
    return [
        (output.data["bar"], output.data.get("n"), output.data["is_closed"]) for output in taken
    ]


def a_bar(bars, n=0):
    bar = bars.open("In_1_ab:2")
    bar.show({"description": "work", "n": n, "total": 9, "unit": "it"}, 0.0)
    return bar


def test_a_bar_that_shows_nothing_is_not_told():
    bars = ProgressBars()
    bars.open("here")
    assert states(bars, 1.0, is_final=True) == []


def test_a_state_is_told_once():
    bars = ProgressBars()
    a_bar(bars)
    assert states(bars, 1.0) == [(1, 0, False)]
    assert states(bars, 9.0) == []


def test_everything_that_a_bar_shows_is_told():
    bars = ProgressBars()
    a_bar(bars).show({"description": "w", "n": 3, "total": None, "unit": "B"}, 1.234)
    (output,) = bars.take(1.0, is_final=False)
    assert output.data == {
        "bar": 1, "place": "In_1_ab:2", "description": "w", "n": 3, "total": None, "unit": "B",
        "elapsed_s": 1.23, "is_closed": False,
    }  # fmt: skip


def test_a_running_bar_is_told_five_times_a_second_at_most():
    bars = ProgressBars()
    bar = a_bar(bars)
    told = 0
    for step in range(1000):
        bar.show({"n": step}, step / 1000)
        told += len(states(bars, step / 1000))
    assert told == 1 / SHOW_INTERVAL_S


def test_the_last_state_of_a_cell_does_not_wait_for_its_turn():
    bars = ProgressBars()
    bar = a_bar(bars)
    assert states(bars, 1.0) == [(1, 0, False)]
    bar.show({"n": 5}, 0.1)
    assert states(bars, 1.1) == []
    assert states(bars, 1.1, is_final=True) == [(1, 5, False)]


def test_a_bar_that_is_closed_is_told_at_once_and_forgotten():
    bars = ProgressBars()
    bar = a_bar(bars)
    assert states(bars, 1.0) == [(1, 0, False)]
    bar.show({"n": 9}, 0.1)
    bar.close()
    assert states(bars, 1.0) == [(1, 9, True)]
    assert bars._bars == {}


def test_a_bar_that_is_closed_is_not_looked_at_any_more():
    bars = ProgressBars()
    bar = a_bar(bars)
    bar.look_with(lambda: (7, 3.5))
    bar.show({"n": 9}, 1.5)
    bar.close()
    (output,) = bars.take(1.0, is_final=False)
    assert (output.data["n"], output.data["elapsed_s"]) == (9, 1.5)


def test_the_count_may_be_ahead_of_what_was_shown():
    bars = ProgressBars()
    bar = a_bar(bars)
    bar.look_with(lambda: (7, 3.5))
    (output,) = bars.take(1.0, is_final=False)
    assert (output.data["n"], output.data["elapsed_s"]) == (7, 3.5)


def test_a_count_that_is_no_plain_number_is_not_touched():
    class OnDevice:
        def __float__(self):
            raise AssertionError("it would wait for the device")

    bars = ProgressBars()
    a_bar(bars, n=2).look_with(lambda: (OnDevice(), 0.0))
    assert states(bars, 1.0) == [(1, 2, False)]


def test_a_count_of_more_bits_than_the_wire_has_is_told_roughly():
    bars = ProgressBars()
    a_bar(bars).look_with(lambda: (2**70, 0.0))
    ((_, count, _),) = states(bars, 1.0)
    assert (type(count), count) == (float, float(2**70))


def test_a_bar_that_is_only_tidied_away_in_a_later_cell_is_silent_there():
    bars = ProgressBars()
    bar = a_bar(bars, n=4)
    assert states(bars, 1.0, is_final=True) == [(1, 4, False)]
    bar.close()
    assert states(bars, 2.0, is_final=True) == []
    assert bars._bars == {}


def test_a_bar_that_moves_on_in_a_later_cell_is_told_there():
    bars = ProgressBars()
    bar = a_bar(bars, n=4)
    assert states(bars, 1.0, is_final=True) == [(1, 4, False)]
    assert states(bars, 2.0, is_final=True) == []
    bar.show({"n": 6}, 3.0)
    assert states(bars, 3.0) == [(1, 6, False)]
    bar.close()
    assert states(bars, 3.0) == [(1, 6, True)]


def test_bars_are_told_in_the_order_in_which_they_began():
    bars = ProgressBars()
    for n in range(3):
        a_bar(bars, n)
    assert states(bars, 1.0) == [(1, 0, False), (2, 1, False), (3, 2, False)]


def test_a_bar_that_stands_still_is_told_ever_more_rarely_how_long_it_takes():
    bars = ProgressBars()
    times = []
    bar = a_bar(bars, n=5)
    for now_s in range(1000):
        bar.look_with(lambda now_s=now_s: (5, float(now_s)))
        times += [output.data["elapsed_s"] for output in bars.take(now_s, is_final=False)]
    assert times[:4] == [0.0, 2.0, 4.0, 6.0]
    assert times[-1] > 800
    assert len(times) < 40


def test_a_bar_that_stood_still_before_the_cell_is_silent():
    bars = ProgressBars()
    bar = a_bar(bars, n=5)
    assert states(bars, 1.0, is_final=True) == [(1, 5, False)]
    bar.look_with(lambda: (5, 100.0))
    assert states(bars, 2.0, is_final=True) == []
