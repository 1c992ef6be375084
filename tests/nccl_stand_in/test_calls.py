"""All calls between real ranks, through the real nccl4py."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(120)

EVERYTHING = (Path(__file__).parent / "everything.py").read_text()


@pytest.mark.parametrize("size", [2, 4])
def test_every_call_and_type_agrees_with_numpy(ranks, size):
    found = ranks(size).values(EVERYTHING, timeout_s=90)
    assert len(set(found)) == 1
    assert int(found[0]) == 48 * (15 + 3 * size)
