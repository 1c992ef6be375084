import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.model.bench.bench_plan import DEFAULT_OPS, BenchPlan, piece_counts, sizes
from jupyter_dist.model.bench.measurements import OPS
from jupyter_dist.options.bench_options import plan_bench, read_ops, read_size


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("8", 8),
        ("8B", 8),
        ("4K", 4096),
        ("4k", 4096),
        ("1M", 1 << 20),
        ("1MiB", 1 << 20),
        ("1 MiB", 1 << 20),
        ("64M", 64 << 20),
        ("1G", 1 << 30),
        (" 2GiB ", 2 << 30),
        (12, 12),
    ],
)
def test_a_size_is_read(text, nbytes):
    assert read_size(text) == nbytes


@pytest.mark.parametrize("text", ["", "0", 0, -4, "-1", "1.5K", "4KB", "1T", "K", "x", None, 1.5])
def test_what_is_no_size_is_refused_naming_it_and_what_is_accepted(text):
    with pytest.raises(UsageError, match="8, 4K, 64M or 1GiB") as caught:
        read_size(text)
    assert repr(text) in str(caught.value)


def test_operations_are_read_once_each_in_their_order():
    assert read_ops("reduce, all_reduce,reduce") == ("reduce", "all_reduce")
    assert read_ops(["gather"]) == ("gather",)
    assert read_ops("all") == OPS
    assert read_ops(None) == DEFAULT_OPS


@pytest.mark.parametrize("given", ["", "allreduce", "all_reduce,", [], "all,reduce"])
def test_an_unknown_operation_is_refused_naming_those_there_are(given):
    with pytest.raises(UsageError, match=r"all, .* all_reduce, broadcast"):
        read_ops(given)


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        ({"min_bytes": "2M", "max_bytes": "1M"}, "2 MiB to 1 MiB"),
        ({"factor": 1}, "factor 1 "),
        ({"factor": 2.5}, "factor 2.5 "),
        ({"dtype": "complex64"}, "dtype 'complex64' "),
        ({"timeout_s": 0}, "timeout 0 "),
    ],
)
def test_what_cannot_be_measured_is_refused(wishes, words):
    with pytest.raises(UsageError) as caught:
        plan_bench(**wishes)
    assert words in str(caught.value)


def test_a_plan_without_wishes_is_the_default():
    assert plan_bench() == BenchPlan()


def test_sizes_grow_by_the_factor_and_end_with_the_largest():
    assert sizes(plan_bench(min_bytes=8, max_bytes=512), "ring") == (8, 64, 512)
    assert sizes(plan_bench(min_bytes=8, max_bytes=1024), "ring") == (8, 64, 512, 1024)
    assert sizes(plan_bench(min_bytes="1K", max_bytes="4K", factor=2), "ring") == (1024, 2048, 4096)
    assert sizes(plan_bench(min_bytes=8, max_bytes=8), "ring") == (8,)


@pytest.mark.parametrize(("kind", "largest"), [("ring", 64 << 20), ("nccl", 1 << 30)])
def test_the_largest_size_depends_on_the_communicator(kind, largest):
    assert sizes(plan_bench(), kind)[0] == 8
    assert sizes(plan_bench(), kind)[-1] == largest
    assert sizes(plan_bench(min_bytes="2G"), kind) == (2 << 30,)


def test_no_point_is_measured_twice():
    plan = plan_bench(ops="all_gather,reduce", min_bytes=1, max_bytes=64, factor=2)
    assert list(piece_counts(plan, "ring", itemsize=4, world_size=4)) == [
        *(("all_gather", count) for count in (1, 2, 4)),
        *(("reduce", count) for count in (1, 2, 4, 8, 16)),
    ]
