"""Whatever befalls one rank at whatever moment: the answer is true, and the others go on."""

import pytest

from tests.matrix import each_value_once

from .faults import FAULTS
from .moments import MOMENTS
from .promises import assert_goes_on, assert_nothing_else_lives, assert_survivors_intact
from .scene import Scene

EVERYWHERE = ("computing", "in_a_collective", "printing", "pushing", "healing")
ONLY = {
    "sigkill": tuple(MOMENTS),
    "sigstop": ("idle", "in_a_collective", "pushing", "rendezvous", "forming"),
    "sigstop_sigcont": ("idle", "computing", "in_a_collective", "printing", "rendezvous"),
    "exit": (*EVERYWHERE, "idle", "rendezvous", "forming"),
    "raise": (*EVERYWHERE, "forming"),
    "segfault": (*EVERYWHERE, "idle", "forming"),
    "out_of_memory": EVERYWHERE,
    "gil": (*EVERYWHERE, "idle", "rendezvous", "forming"),
    "agent_killed": (*EVERYWHERE, "idle", "forming"),
    "agent_stopped": ("idle", "in_a_collective"),
    "relay_killed": (*EVERYWHERE, "idle", "rendezvous", "forming"),
    "relay_stopped": (*EVERYWHERE, "idle", "rendezvous"),
    "zygote_killed": (*EVERYWHERE, "idle", "rendezvous"),
}
"""Who raises outside of a cell has no cell to fail: the other pairs make no sense, or are slow."""
PAIRS = [(fault, moment) for fault, moments in ONLY.items() for moment in moments]


@pytest.mark.parametrize(("fault", "moment"), each_value_once(PAIRS))
def test_one_rank_is_hit_and_the_truth_is_told(fault, moment, patient, tmp_path, in_background):
    try:
        scene = Scene(patient, FAULTS[fault], tmp_path, in_background)
        cluster = scene.cluster
        stage = MOMENTS[moment]()
        stage.begin(scene)
        scene.strike()
        stage.finish(scene)
        assert_survivors_intact(cluster, scene.kept, scene.gone)
        assert_goes_on(cluster)
        assert_survivors_intact(cluster, scene.kept, scene.gone)
        assert_nothing_else_lives(cluster, patient.home)
    except BaseException:
        patient.close()
        raise
