import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.text.sizes import GIB, KIB, MIB, TIB, tell_part, tell_size, without_measures

UNITS = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": TIB}


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1365, "1.33 KiB"), (MIB - 4, "1 MiB"), (250 * GIB, "250 GiB")],
)
def test_a_size_has_three_digits(count, text):
    assert tell_size(count) == text


@given(st.integers(0, 1000 * TIB))
def test_a_size_reads_as_what_it_is(count):
    number, unit = tell_size(count).split()
    assert float(number) * UNITS[unit] == pytest.approx(count, rel=0.006)
    assert len(number.strip("0.").replace(".", "")) <= 4


def test_a_part_names_the_unit_once_where_it_is_that_of_the_whole():
    assert tell_part(3 * GIB, 4 * GIB) == "3 of 4 GiB"
    assert tell_part(GIB // 2, 4 * GIB) == "512 MiB of 4 GiB"


@pytest.mark.parametrize(
    "said", ["for {} s", "with {} MiB of it", "with {} MiB of 4 GiB", "at 9.1.{}"]
)
def test_only_measures_are_left_out(said):
    is_same = without_measures(said.format(3.5)) == without_measures(said.format(12))
    assert is_same == ("at" not in said)
