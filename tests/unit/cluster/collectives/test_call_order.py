import pytest

from jupyter_dist.cluster.collectives.call_order import merge_orders


def times_of(keys):
    return {key: number for number, key in enumerate(keys)}


def test_each_order_is_kept():
    merged = merge_orders(["acd", "abd", "bce"], times_of("abcde"))
    for order in ("acd", "abd", "bce"):
        assert [key for key in merged if key in order] == list(order)
    assert sorted(merged) == list("abcde")


@pytest.mark.parametrize(
    ("orders", "times", "merged"),
    [
        # Time decides where there is a choice.
        (["ax", "by"], {"a": 1, "b": 2, "y": 3, "x": 4}, "abyx"),
        (["ax", "by"], {"a": 2, "b": 1, "y": 9, "x": 4}, "baxy"),
        # An order goes before what clocks say.
        (["ab", "bc"], {"a": 9, "b": 5, "c": 1}, "abc"),
        # Some contradict each other, or have something twice, or nothing.
        (["ab", "ba"], {"a": 1, "b": 2}, "ab"),
        (["aab", "aba"], times_of("ab"), "ab"),
        ([], {}, ""),
        (["", ""], {}, ""),
    ],
)
def test_orders_are_merged_by_time(orders, times, merged):
    assert merge_orders(orders, times) == list(merged)


def test_orders_that_contradict_each_other_still_give_one():
    merged = merge_orders(["abcz", "cba"], {"a": 3, "b": 2, "c": 1, "z": 0})
    assert sorted(merged) == list("abcz")


def test_many_ranks_are_no_trouble():
    orders = [list(range(2000)) for _ in range(64)]
    assert merge_orders(orders, {key: -key for key in range(2000)}) == list(range(2000))
