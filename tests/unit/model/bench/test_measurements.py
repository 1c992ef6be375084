"""Numbers worked out by hand from nccl-tests' doc/PERFORMANCE.md."""

import pytest

from jupyter_dist.model.bench.bandwidth import RankPath
from jupyter_dist.model.bench.measurements import (
    OPS,
    BenchProgress,
    BenchReport,
    Measured,
    bandwidth_text,
    busbw_factor,
    merge,
    piece_count,
    size_of,
    time_text,
)
from jupyter_dist.text.sizes import GIB


def measured(op="all_reduce", nbytes=1_000_000, median_s=1e-3, wrong=0):
    return Measured(op, nbytes, 10, median_s, 2 * median_s, median_s / 2, wrong)


@pytest.mark.parametrize(
    ("ops", "of_2", "of_8", "count"),
    [
        (["all_reduce"], 1.0, 1.75, 256),
        (["all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"], 0.5, 0.875, 64),
        (["broadcast", "reduce", "send_recv"], 1.0, 1.0, 256),
    ],
)
def test_busbw_has_the_factor_of_nccl_tests_and_sizes_are_of_the_larger_buffer(
    ops, of_2, of_8, count
):
    for op in ops:
        assert (busbw_factor(op, 2), busbw_factor(op, 8)) == (of_2, of_8)
        assert piece_count(op, 1024, itemsize=4, world_size=4) == count
        assert size_of(op, count, itemsize=4, world_size=4) == 1024


def test_every_operation_has_a_factor():
    assert all(busbw_factor(op, 4) > 0 for op in OPS)


def test_a_piece_has_one_element_at_least_and_sizes_are_rounded_down():
    assert piece_count("all_reduce", 3, itemsize=4, world_size=4) == 1
    assert piece_count("all_gather", 8, itemsize=4, world_size=4) == 1
    assert size_of("all_gather", 1, itemsize=4, world_size=4) == 16
    assert piece_count("all_gather", 1000, itemsize=4, world_size=3) == 83


def test_algbw_is_size_by_time_in_units_of_1e9():
    (point,) = merge([[measured(nbytes=GIB, median_s=0.004)]] * 8, "float32", 8)
    assert point.algbw == pytest.approx(268.435456)
    assert point.busbw == pytest.approx(469.762048)
    assert (point.iterations, point.p99_s, point.min_s) == (10, 0.008, 0.002)


def test_one_rank_has_no_busbw():
    (point,) = merge([[measured()]], "float32", 1)
    assert (point.algbw, point.busbw) == (pytest.approx(1.0), None)


def test_wrong_elements_of_all_ranks_are_added_and_their_ranks_named():
    ranks = [[measured(wrong=wrong)] for wrong in (0, 3, 0, 4)]
    (point,) = merge(ranks, "float32", 4)
    assert (point.wrong, point.wrong_ranks) == (7, (1, 3))


def test_what_was_not_checked_is_not_called_right():
    (point,) = merge([[measured(wrong=None)]] * 2, "float32", 2)
    assert (point.wrong, point.wrong_ranks) == (None, ())


def test_a_report_gives_its_points_by_operation():
    points = merge([[measured(), measured("reduce"), measured("reduce", 9)]] * 2, "int8", 2)
    report = BenchReport(
        kind="ring", world_size=2, hosts=("a",), paths=(RankPath("a"),) * 2, points=points
    )
    assert report.ops == ("all_reduce", "reduce")
    assert [point.nbytes for point in report.of("reduce")] == [1_000_000, 9]
    assert report.promise.words == "loopback"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(8.54e-6, "8.54 µs"), (0.000290, "290 µs"), (0.00125, "1.25 ms"), (0.9999, "1 s"), (3, "3 s")],
)
def test_times_are_written_with_three_digits(seconds, text):
    assert time_text(seconds) == text


@pytest.mark.parametrize(
    ("gb_per_s", "text"), [(None, "n/a"), (0.0002, "0.00"), (3.125, "3.12"), (479.6, "480")]
)
def test_bandwidths_are_written_as_nccl_tests_does(gb_per_s, text):
    assert bandwidth_text(gb_per_s) == text


def test_progress_reads_as_operation_and_size():
    assert str(BenchProgress("all_reduce", 1 << 20)) == "all_reduce 1 MiB …"
