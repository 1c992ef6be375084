import pytest

from jupyter_dist.model.bench.bandwidth import RankPath
from jupyter_dist.model.bench.measurements import BenchReport, Measured, merge
from jupyter_dist.model.hosts.topology import GpuLinks
from jupyter_dist.views.tables.bench_verdict import has_wrong_results, judge

ETHERNET = (RankPath("a", "eth0", 25_000), RankPath("b", "eth0", 25_000))
"""25 Gbit/s promise 3.125 GB/s."""
LOOPBACK = (RankPath("a"), RankPath("a"))
NVLINK = tuple(
    RankPath("a", gpu=GpuLinks(index=index, nvlink_version=4, nvlink_count=18))
    for index in range(2)
)


def report_of(*ranks, paths=LOOPBACK, kind="ring"):
    """A report of what each rank measured, as (op, nbytes, median_s, wrong)."""
    each = [
        [
            Measured(op, nbytes, 5, median_s, median_s, median_s, wrong)
            for op, nbytes, median_s, wrong in rank
        ]
        for rank in ranks
    ]
    points = merge(each, "float32", len(ranks))
    return BenchReport(
        kind=kind, world_size=len(ranks), hosts=("a",), paths=paths[: len(ranks)], points=points
    )


def broadcast_at(gb_per_s, paths):
    rank = [("broadcast", 1000, 1000 / gb_per_s / 1e9, 0)]
    return judge(report_of(rank, rank, paths=paths))[0]


@pytest.mark.parametrize(
    ("gb_per_s", "level"), [(2.6, "good"), (2.4, "warning"), (1.6, "warning"), (1.5, "bad")]
)
def test_busbw_is_judged_by_what_the_links_promise(gb_per_s, level):
    assert broadcast_at(gb_per_s, ETHERNET).level == level


def test_a_verdict_names_speed_size_share_and_link():
    assert broadcast_at(2.5, ETHERNET).text == (
        "broadcast: at best 2.50 GB/s busbw at 1000 B, 80 % of 3.12 GB/s that eth0, 25 Gbit/s "
        "can carry"
    )


def test_the_best_size_counts():
    rank = [("broadcast", 8, 1e-6, 0), ("broadcast", 8000, 1e-6, 0), ("broadcast", 9000, 2e-6, 0)]
    assert "8.00 GB/s busbw at 7.81 KiB" in judge(report_of(rank, rank))[0].text


def test_without_a_promise_nothing_is_good_or_bad():
    rank = [("all_reduce", 1000, 1e-6, 0)]
    verdicts = judge(report_of(rank, rank))
    assert {verdict.level for verdict in verdicts} == {"unknown"}
    texts = [verdict.text for verdict in verdicts]
    assert texts[0] == "all_reduce: at best 1.00 GB/s busbw at 1000 B"
    assert texts[1].endswith(": loopback")
    assert texts[2] == "small messages, 1000 B: all_reduce 1 µs"


def test_one_rank_has_no_busbw_to_judge():
    verdicts = judge(report_of([("all_reduce", 1000, 1e-6, 0)]))
    assert verdicts[0].text == "all_reduce: at best 1.00 GB/s algbw at 1000 B"
    assert verdicts[1].text.startswith("busbw: n/a, ")


def test_an_all_reduce_beyond_the_links_is_reduced_in_the_network():
    rank = [("all_reduce", 480_000, 1e-6, 0), ("broadcast", 470_000, 1e-6, 0)]
    report = report_of(rank, rank, paths=NVLINK, kind="nccl")
    reduced, sent = judge(report)[:2]
    assert (reduced.level, sent.level) == ("good", "good")
    assert f"107 % of 450 GB/s that {report.promise.words} can carry" in reduced.text
    assert reduced.text.endswith(": in-network reduction")
    assert "in-network" not in sent.text


def test_wrong_results_come_first_and_name_operation_size_count_and_ranks():
    good = [("broadcast", 8, 1e-6, 0), ("reduce", 8, 1e-6, 0), ("reduce", 4096, 1e-6, 0)]
    bad = [("broadcast", 8, 1e-6, 0), ("reduce", 8, 1e-6, 2), ("reduce", 4096, 1e-6, 1000)]
    report = report_of(good, bad)
    assert has_wrong_results(report)
    assert judge(report)[0].level == "bad"
    assert judge(report)[0].text.startswith("reduce: ")
    for fact in ("rank 1;", "2 at 8 B", "1000 at 4 KiB"):
        assert fact in judge(report)[0].text


@pytest.mark.parametrize("wrong", [0, None])
def test_right_and_unchecked_results_are_not_called_wrong(wrong):
    rank = [("reduce", 8, 1e-6, wrong)]
    report = report_of(rank, rank)
    assert not has_wrong_results(report)
    assert "wrong" not in " ".join(verdict.text for verdict in judge(report))


def test_small_messages_are_told_by_size():
    rank = [("reduce", 8, 1e-5, 0), ("gather", 16, 2e-5, 0), ("broadcast", 8, 3e-5, 0)]
    assert [verdict.text for verdict in judge(report_of(rank, rank))[-2:]] == [
        "small messages, 8 B: reduce 10 µs, broadcast 30 µs",
        "small messages, 16 B: gather 20 µs",
    ]
