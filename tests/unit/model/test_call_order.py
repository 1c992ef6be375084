import pytest

from jupyter_dist.model.call_order import merge_orders


def times_of(keys):
    return {key: number for number, key in enumerate(keys)}


def test_each_order_is_kept():
    merged = merge_orders(["acd", "abd", "bce"], times_of("abcde"))
    for order in ("acd", "abd", "bce"):
        assert [key for key in merged if key in order] == list(order)
    assert sorted(merged) == list("abcde")


def test_time_decides_where_there_is_a_choice():
    assert merge_orders(["ax", "by"], {"a": 1, "b": 2, "y": 3, "x": 4}) == list("abyx")
    assert merge_orders(["ax", "by"], {"a": 2, "b": 1, "y": 9, "x": 4}) == list("baxy")


def test_an_order_goes_before_what_clocks_say():
    assert merge_orders(["ab", "bc"], {"a": 9, "b": 5, "c": 1}) == list("abc")


def test_orders_that_contradict_each_other_still_give_one():
    assert merge_orders(["ab", "ba"], {"a": 1, "b": 2}) == list("ab")
    merged = merge_orders(["abcz", "cba"], {"a": 3, "b": 2, "c": 1, "z": 0})
    assert sorted(merged) == list("abcz")


def test_something_that_comes_twice_is_there_once():
    assert merge_orders(["aab", "aba"], times_of("ab")) == list("ab")


@pytest.mark.parametrize("orders", [[], [""], ["", ""]])
def test_nothing_gives_nothing(orders):
    assert merge_orders(orders, {}) == []


def test_many_ranks_are_no_trouble():
    orders = [list(range(2000)) for _ in range(64)]
    assert merge_orders(orders, {key: -key for key in range(2000)}) == list(range(2000))
