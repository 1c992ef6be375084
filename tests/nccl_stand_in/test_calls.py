"""All calls between real ranks, through the real nccl4py."""

import pytest

from tests.gpu.ranks_programs import check

pytestmark = pytest.mark.timeout(120)

# Without kernels there is no conversion: of the types only those that NCCL itself has.
EVERYTHING = check("gpu_everything.check", "gpu_everything.OF_NCCL", arrays="stand_in")


@pytest.mark.parametrize("size", [2, 4])
def test_every_call_and_type_agrees_with_numpy(ranks, size):
    found = ranks(size).values(EVERYTHING, timeout_s=90)
    assert len(set(found)) == 1
    assert int(found[0]) == 60 * (15 + 3 * size)
