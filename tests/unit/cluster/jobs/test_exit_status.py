"""The status that tells a shell how a job has ended."""

import pytest
from fakes.cluster import FAILED

from jupyter_dist.cluster.jobs.exit_status import exit_status, status_of_process
from jupyter_dist.cluster.result import RankResult, SpmdResult
from jupyter_dist.errors import CellFailed
from jupyter_dist.model.ranks.crashes.crash import CrashReport
from jupyter_dist.protocol.messages import ErrorInfo


@pytest.mark.parametrize(
    ("results", "status"),
    [
        ({0: ("ok", None), 1: ("raised", FAILED)}, 1),
        ({0: ("interrupted", None), 1: ("raised", ErrorInfo("SystemExit", "7"))}, 7),
        ({0: ("raised", ErrorInfo("SystemExit", "word"))}, 1),
        ({0: ("timed_out", None)}, 124),
        ({0: ("interrupted", None)}, 130),
        ({0: ("unresponsive", None)}, 130),
        ({0: ("lost", None)}, 1),
        ({0: ("lost", CrashReport(rank=0, host="a", reason="killed", signal=9))}, 137),
        ({0: ("lost", CrashReport(rank=0, host="a", reason="left", exit_code=5))}, 5),
    ],
)
def test_the_exit_status_tells_how_it_has_failed(results, status):
    result = SpmdResult(
        [
            RankResult(
                rank=rank,
                status=how,
                error=why if isinstance(why, ErrorInfo) else None,
                crash=why if isinstance(why, CrashReport) else None,
            )
            for rank, (how, why) in results.items()
        ]
    )
    with pytest.raises(CellFailed) as caught:
        result.raise_first()
    assert exit_status(caught.value) == status


@pytest.mark.parametrize(("code", "status"), [(-9, 137), (3, 3), (0, 1), (None, 1)])
def test_a_process_that_ends_too_early_has_failed(code, status):
    assert status_of_process(code) == status
