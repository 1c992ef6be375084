import pytest

from jupyter_dist.launch.launcher import (
    keepalive_ms,
    keepalive_timeout_ms,
    silence_before_break_s,
)


@pytest.mark.parametrize("is_local", [True, False])
@pytest.mark.parametrize(("lost_after_s", "silence_s"), [(2.0, 2.0), (4.0, 2.0), (10.0, 5.0)])
def test_half_of_the_time_is_left_to_dial_again(lost_after_s, silence_s, is_local):
    assert silence_before_break_s(lost_after_s) == silence_s
    asked_ms = keepalive_ms(lost_after_s, is_local=is_local)
    assert asked_ms + keepalive_timeout_ms(lost_after_s, is_local=is_local) == 1000 * silence_s
    assert asked_ms >= 1000


def test_an_answer_of_another_machine_may_take_longer():
    assert keepalive_timeout_ms(10.0, is_local=False) == 3500
    assert keepalive_timeout_ms(10.0, is_local=True) == 2000
