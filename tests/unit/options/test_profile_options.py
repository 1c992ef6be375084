import argparse

import pytest

from jupyter_dist.options.profile_options import read_profile_s


@pytest.mark.parametrize(("text", "seconds"), [("5", 5.0), ("0.5s", 0.5), ("2m", 120.0)])
def test_durations_are_read(text, seconds):
    assert read_profile_s(text) == seconds


@pytest.mark.parametrize("text", ["0", "-1", "soon", "61m", ""])
def test_other_durations_are_refused(text):
    with pytest.raises(argparse.ArgumentTypeError):
        read_profile_s(text)
