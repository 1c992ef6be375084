import pytest

from jupyter_dist.mcp.call_limit import MOST_CALLS, CallLimit, TooManyCalls


def test_of_a_thousand_calls_in_a_second_few_are_answered():
    limit, answered = CallLimit(lambda: 5.0), 0
    for _ in range(1000):
        try:
            limit.take()
        except TooManyCalls:
            continue
        answered += 1
    assert answered == MOST_CALLS


def test_after_a_second_calls_are_answered_again():
    now = [0.0]
    limit = CallLimit(lambda: now[0])
    for _ in range(MOST_CALLS):
        limit.take()
    now[0] = 0.9
    with pytest.raises(TooManyCalls):
        limit.take()
    now[0] = 1.0
    limit.take()
