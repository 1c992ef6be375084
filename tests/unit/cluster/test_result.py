import pytest

from jupyter_dist.cluster.result import RankResult, SpmdResult
from jupyter_dist.cluster.variables.values_of_cells import MOST_BYTES, ValuesOfCell
from jupyter_dist.errors import (
    CellFailed,
    CellInterrupted,
    CellTimedOut,
    RankLost,
    RankRaised,
    TransferError,
    UsageError,
)
from jupyter_dist.model.hosts.axes import lay_out
from jupyter_dist.protocol.messages import ErrorInfo

BOOM = ErrorInfo("ValueError", "boom", ("Traceback…",))


def result(**statuses):
    """`result(r0="ok", r1="raised")`, in the order given."""
    errors = {"ok": None, "raised": BOOM, "lost": ErrorInfo("RankLost", "killed by SIGKILL")}
    return SpmdResult(
        [
            RankResult(
                rank=int(name[1:]),
                status=status,
                error=errors.get(status, ErrorInfo("PeerFailed", "rank 1 raised")),
            )
            for name, status in statuses.items()
        ]
    )


def test_results_come_in_rank_order_however_they_arrived():
    assert [found.rank for found in result(r3="ok", r0="ok", r1="ok")] == [0, 1, 3]


def test_an_index_counts_results_and_rank_counts_ranks():
    some = result(r1="ok", r3="raised")
    assert (some[1].rank, some.rank(3).rank, len(some)) == (3, 3, 2)
    assert [found.rank for found in some[0:1]] == [1]


def test_a_rank_that_did_not_run_the_cell_is_a_mistake():
    with pytest.raises(UsageError, match=r"^rank 0 .* ranks 1,3 "):
        result(r1="ok", r3="ok").rank(0)


def test_the_value_is_fetched_once_and_only_where_there_is_one():
    asked = []

    def fetch(name, rank, *, cell_id, most_bytes):
        assert most_bytes == MOST_BYTES
        asked.append((name, rank, cell_id))
        return {rank: 12.5}

    values = ValuesOfCell(5, "cell-9", fetch)
    some = RankResult(rank=2, status="ok", value_repr="12.5", values=values)
    assert [some.value, some.value] == [12.5, 12.5]
    assert asked == [("Out[5]", 2, "cell-9")]
    assert RankResult(rank=1, status="ok", values=values).value is None
    with pytest.raises(TransferError, match=r"rank 3 .*killed by SIGKILL"):
        result(r3="lost")[0].value  # noqa: B018  (fetched when it is touched)
    assert len(asked) == 1


def test_ok_means_every_rank_ended_well():
    assert result(r0="ok", r1="ok").ok
    result(r0="ok").raise_first()
    assert not result(r0="ok", r1="peer_failed").ok


def test_it_reads_as_who_ended_how():
    text = repr(result(r0="ok", r1="ok", r2="lost", r3="raised"))
    assert text == "<SpmdResult: ok on ranks 0-1; raised on rank 3; lost on rank 2>"


def test_the_cause_is_raised_before_its_consequences():
    with pytest.raises(RankRaised) as caught:
        result(r0="peer_failed", r1="peer_failed", r2="raised", r3="ok").raise_first()
    error = caught.value
    assert (error.rank, error.ename, error.traceback) == (2, "ValueError", ("Traceback…",))
    assert (error.others[:9], error.others[-10:]) == ("2 others ", "PeerFailed")


@pytest.mark.parametrize(
    ("statuses", "head"),
    [
        (["raised"], "rank 0 raised"),
        (["raised"] * 4, "All 4 ranks raised; traceback from rank 0"),
        (["ok", "raised", "raised"], "rank 1 raised; 1 other raised too"),
        (
            ["peer_failed", "raised", "peer_failed"],
            "rank 1 raised; the 2 other ranks were released with PeerFailed",
        ),
        (
            ["raised", "lost", "raised", "raised", "unresponsive"],
            "rank 0 raised; 1 other is lost; 2 others raised too; 1 other is still busy",
        ),
    ],
)
def test_the_head_of_a_traceback_counts_in_english(statuses, head):
    ended = {f"r{rank}": status for rank, status in enumerate(statuses)}
    with pytest.raises(RankRaised) as caught:
        result(**ended).raise_first()
    assert caught.value._render_traceback_()[0] == head


@pytest.mark.parametrize(
    ("statuses", "error", "text"),
    [
        (
            {"r0": "peer_failed", "r1": "lost"},
            RankLost,
            r"^rank 1 .*SIGKILL \(1 other .*PeerFailed",
        ),
        ({"r0": "interrupted", "r1": "interrupted"}, CellInterrupted, r"^ranks 0-1 interrupted$"),
        (
            {"r0": "interrupted", "r2": "unresponsive"},
            CellInterrupted,
            r"^rank 2 .*\(1 other was interrupted\).* %dist_heal --ranks 2 ",
        ),
        ({"r0": "ok", "r2": "timed_out"}, CellTimedOut, "^rank 2 "),
        ({"r0": "interrupted", "r1": "timed_out"}, CellTimedOut, r"^rank 1 .*\(1 other "),
        # Its cause is not here.
        ({"r0": "ok", "r2": "peer_failed"}, RankRaised, "PeerFailed: rank 1 raised"),
    ],
)
def test_each_end_has_its_own_error(statuses, error, text):
    with pytest.raises(error, match=text):
        result(**statuses).raise_first()


def test_an_unresponsive_rank_is_no_success_and_named_in_the_error():
    some = result(r0="interrupted", r1="unresponsive", r3="unresponsive", r4="ok")
    assert not some.ok
    assert " ranks 1,3" in repr(some)
    with pytest.raises(CellInterrupted, match=r"^ranks 1,3 ") as caught:
        some.raise_first()
    assert caught.value.unresponsive == (1, 3)


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ("raised", r"^rank 3 \(data=1, model=1\): ValueError"),
        ("lost", r"^rank 3 \(data=1, model=1\) is lost"),
        ("timed_out", r"^rank 3 \(data=1, model=1\) ran into the time limit"),
    ],
)
def test_errors_name_coordinates_where_the_cluster_has_axes(status, text):
    axes = lay_out([("data", 2), ("model", 2)], 4)
    with pytest.raises(CellFailed, match=text):
        SpmdResult(result(r0="ok", r3=status), axes).raise_first()
