import pytest

from jupyter_dist.engine.output.bar_collector import SHOW_INTERVAL_S, BarCollector


@pytest.fixture
def bars():
    return BarCollector()


def states(bars, now_s, *, is_final=False):
    taken = bars.take(now_s, is_final=is_final)
    assert {output.kind for output in taken} <= {"progress"}
    return [
        (output.data["bar"], output.data.get("n"), output.data["is_closed"]) for output in taken
    ]


def a_bar(bars, n=0, **options):
    bar = bars.open("In_1_ab:2", **options)
    bar.show({"description": "work", "n": n, "total": 9, "unit": "it"}, 0.0)
    return bar


def test_everything_that_a_bar_shows_is_told_once(bars):
    bars.open("shows nothing")
    a_bar(bars).show({"description": "w", "n": 3, "total": None, "unit": "B"}, 1.234)
    (output,) = bars.take(1.0, is_final=False)
    assert output.data == {
        "bar": 2, "place": "In_1_ab:2", "description": "w", "n": 3, "total": None, "unit": "B",
        "elapsed_s": 1.23, "is_closed": False,
    }  # fmt: skip
    assert states(bars, 9.0, is_final=True) == []


def test_a_running_bar_is_told_five_times_a_second_at_most(bars):
    bar = a_bar(bars)
    told = 0
    for step in range(1000):
        bar.show({"n": step}, step / 1000)
        told += len(states(bars, step / 1000))
    assert told == 1 / SHOW_INTERVAL_S


def test_the_last_state_of_a_cell_does_not_wait_for_its_turn(bars):
    bar = a_bar(bars)
    assert states(bars, 1.0) == [(1, 0, False)]
    bar.show({"n": 5}, 0.1)
    assert states(bars, 1.1) == []
    assert states(bars, 1.1, is_final=True) == [(1, 5, False)]


def test_a_bar_that_is_closed_is_told_at_once_and_forgotten(bars):
    bar = a_bar(bars)
    assert states(bars, 1.0) == [(1, 0, False)]
    bar.show({"n": 9}, 0.1)
    bar.close()
    assert states(bars, 1.0) == [(1, 9, True)]
    assert bars._bars == {}


@pytest.mark.parametrize(("is_closed", "told"), [(False, (7, 3.5)), (True, (4, 1.5))])
def test_what_is_seen_is_ahead_of_what_was_shown_until_the_bar_is_closed(bars, is_closed, told):
    bar = a_bar(bars, look=lambda: (7, 3.5))
    bar.show({"n": 4}, 1.5)
    if is_closed:
        bar.close()
    (output,) = bars.take(1.0, is_final=False)
    assert (output.data["n"], output.data["elapsed_s"]) == told


class OnDevice:
    def __float__(self):
        raise AssertionError("it would wait for the device")


@pytest.mark.parametrize(("count", "told"), [(OnDevice(), 2), (2**70, float(2**70))])
def test_a_count_is_a_plain_number_that_the_wire_can_carry_or_not_touched(bars, count, told):
    a_bar(bars, n=2, look=lambda: (count, 0.0))
    ((_, found, _),) = states(bars, 1.0)
    assert (type(found), found) == (type(told), told)


def test_a_bar_that_moves_on_in_a_later_cell_is_told_there(bars):
    bar, tidied_away = a_bar(bars, n=4), a_bar(bars, n=4)
    assert states(bars, 1.0, is_final=True) == [(1, 4, False), (2, 4, False)]
    tidied_away.close()
    assert states(bars, 2.0, is_final=True) == []
    bar.show({"n": 6}, 3.0)
    assert states(bars, 3.0) == [(1, 6, False)]
    bar.close()
    assert states(bars, 3.0) == [(1, 6, True)]
    assert bars._bars == {}


def test_bars_are_told_in_the_order_in_which_they_began(bars):
    for n in range(3):
        a_bar(bars, n)
    assert states(bars, 1.0) == [(1, 0, False), (2, 1, False), (3, 2, False)]


def test_a_bar_that_stands_still_is_told_ever_more_rarely_how_long_it_takes(bars):
    times, now_s = [], 0
    a_bar(bars, n=5, look=lambda: (5, float(now_s)))
    for now_s in range(1000):
        times += [output.data["elapsed_s"] for output in bars.take(now_s, is_final=False)]
    assert times[:4] == [0.0, 2.0, 4.0, 6.0]
    assert times[-1] > 800
    assert len(times) < 40


def test_a_bar_that_stood_still_before_the_cell_is_silent(bars):
    looked_s = 0.0
    a_bar(bars, n=5, look=lambda: (5, looked_s))
    assert states(bars, 1.0, is_final=True) == [(1, 5, False)]
    looked_s = 100.0
    assert states(bars, 2.0, is_final=True) == []
