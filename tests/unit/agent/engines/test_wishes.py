import pytest

from jupyter_dist.agent.engines.wishes import device_wishes


@pytest.mark.parametrize(
    ("device", "asked", "wishes"),
    [
        ("3", {}, {"CUDA_VISIBLE_DEVICES": "3"}),
        ("GPU-1a2b", {"X": "1"}, {"CUDA_VISIBLE_DEVICES": "GPU-1a2b"}),
        ("3", {"CUDA_VISIBLE_DEVICES": "0,3"}, {}),
        ("", {}, {}),
    ],
)
def test_a_rank_sees_its_own_device_unless_the_user_has_said_what_it_sees(device, asked, wishes):
    assert device_wishes(device, asked) == wishes
