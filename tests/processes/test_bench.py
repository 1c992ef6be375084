"""Collectives are measured on real ranks, and wrong ones are found."""

import pytest

from jupyter_dist.errors import RankRaised
from jupyter_dist.model.bench.measurements import OPS
from jupyter_dist.views.tables.bench_verdict import has_wrong_results, judge
from tests.facts import assert_tells
from tests.matrix import only

from .programs import dist
from .results import values

BREAK_ALL_REDUCE = """
right = comm.all_reduce
def wrong(array, op="sum", out=None):
    result = right(array, op, out=out)
    if op == "sum" and result.size == 128:
        result[-3:] += 1
    return result
if rank == 1:
    comm.all_reduce = wrong
"""


@pytest.mark.parametrize("world_size", only([3], [2, 3]))
def test_every_collective_is_measured_and_right(start, world_size):
    report = start(f"localhost:{world_size}").bench("all", max_bytes="4K", factor=16)
    assert report.ops == OPS
    assert (report.kind, report.world_size, report.hosts) == ("ring", world_size, ("localhost",))
    assert len(report.paths) == world_size
    assert [point.nbytes for point in report.of("all_reduce")] == [8, 128, 2048, 4096]
    assert {point.wrong for point in report.points} == {0}
    for point in report.points:
        assert 0 < point.min_s <= point.median_s <= point.p99_s < 10
        assert 3 <= point.iterations <= 100
        assert point.busbw > 0


def test_one_rank_alone_is_measured_too(start):
    report = start("localhost:1").bench("all", max_bytes=64)
    assert report.ops == OPS
    assert {(point.wrong, point.busbw) for point in report.points} == {(0, None)}


@pytest.mark.parametrize("dtype", ["float16", "int8", "uint64"])
def test_other_types_are_measured_and_right(four, dtype):
    report = four.bench("all_reduce,reduce_scatter", max_bytes=512, dtype=dtype)
    assert {(point.wrong, point.dtype) for point in report.points} == {(0, dtype)}


def test_a_wrong_collective_is_found_and_named(start):
    cluster = start("localhost:2")
    values(cluster.run(BREAK_ALL_REDUCE))
    report = cluster.bench("all_reduce,broadcast", max_bytes="4K")
    assert has_wrong_results(report)
    worst = judge(report)[0]
    assert worst.level == "bad"
    assert_tells(worst.text, "all_reduce: ", "rank 1", "3 at 512 B")
    assert {point.wrong for point in report.of("broadcast")} == {0}
    options = [cluster.name, "--ops", "all_reduce", "--min", "512", "--max", "512"]
    status, out, err = dist("bench", *options)
    assert (status, err) == (1, "")
    assert_tells(out, "✗ all_reduce: wrong results", "rank 1")
    status, out, _ = dist("bench", *options, "--no-check")
    assert status == 0
    assert "wrong results" not in out


def test_a_rank_that_raises_meanwhile_is_shown_as_in_any_cell(start):
    cluster = start("localhost:2")
    values(cluster.run("if rank == 1: comm.reduce = lambda *_, **__: 1 / 0"))
    with pytest.raises(RankRaised, match="rank 1: ZeroDivisionError"):
        cluster.bench("all_reduce,reduce", max_bytes=64)
    assert {point.wrong for point in cluster.bench("reduce", max_bytes=64).points} == {0}
    values(cluster.run("if rank == 1: comm.reduce = lambda *_, **__: 1 / 0"))
    status, out, err = dist("bench", cluster.name, "--ops", "reduce", "--max", "64")
    assert status == 1
    assert "ZeroDivisionError" in out
    assert "rank 1: ZeroDivisionError" in err


def test_nothing_of_a_bench_is_left_on_the_ranks(four):
    look = "[name for name in dir() if name[0] != '_'], comm.timeout_s"
    before = values(four.run(look))
    four.bench("broadcast", max_bytes=8, timeout_s=5)
    assert values(four.run(look)) == before


def test_without_a_communicator_the_way_to_one_is_told(start):
    with pytest.raises(RankRaised, match="--comm"):
        start("localhost:2", comm="none").bench()
