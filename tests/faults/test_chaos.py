"""Hundreds of faults in a row, in an order that nobody has thought of.

`CHAOS_FAULTS` says how many, `CHAOS_SEED` which walk: both are printed when a promise is broken.
"""

import os
import time

import pytest

from tests.matrix import few_or_many

from .conftest import sweep
from .hostile_steps import HostileWalk

FAULTS = few_or_many("CHAOS_FAULTS", 25, 250)
SEED = int(os.environ.get("CHAOS_SEED", "0" if "CI" in os.environ else str(time.time_ns() % 10**6)))


@pytest.mark.parametrize("faults", FAULTS)
def test_a_cluster_keeps_its_promises_through_many_faults(faults, home):
    walk = HostileWalk(SEED, home)
    start_s = time.monotonic()
    try:
        walk.run(faults)
    except BaseException as error:
        steps = "\n".join(f"  {step}" for step in walk.steps)
        raise AssertionError(
            f"after {walk.faults} faults: {type(error).__name__}: {error}\nthe last steps:\n{steps}\n"
            f"again: CHAOS_SEED={SEED} CHAOS_FAULTS={faults} make chaos"
        ) from error
    finally:
        walk.close()
        sweep(home)
    took_s = time.monotonic() - start_s
    print(
        f"seed {SEED}: {sum(walk.counts.values())} steps, {walk.faults} faults in {took_s:.0f} s; {dict(walk.counts)}"
    )
