"""The table of healing stages is whole."""

import pytest

from jupyter_dist.coordinator.recovery.healing_stage import (
    TRANSITIONS,
    HealingEvent,
    HealingStage,
    next_stage,
)

ENDS = {HealingStage.HEALED, HealingStage.FAILED}
WITHOUT_PLACES = {HealingStage.ENDING, HealingStage.RETURNING}
ON_ITS_WAY = [stage for stage in HealingStage if stage not in ENDS]


def test_the_table_covers_every_stage_and_every_event():
    assert set(TRANSITIONS) == set(HealingStage)
    assert {event for row in TRANSITIONS.values() for event in row} == set(HealingEvent)


def test_what_goes_well_leads_through_all_stages_in_their_order():
    stage, passed = HealingStage.ENDING, [HealingStage.ENDING]
    for event in ("ended", "seated", "formed", "set_up", "compared"):
        stage = next_stage(stage, HealingEvent(event))
        passed.append(stage)
    assert passed == [*ON_ITS_WAY, HealingStage.HEALED]


@pytest.mark.parametrize("stage", ON_ITS_WAY)
def test_a_healing_can_fail_at_any_time_until_its_end(stage):
    assert next_stage(stage, HealingEvent.FAILED) is HealingStage.FAILED


@pytest.mark.parametrize("stage", list(HealingStage))
def test_who_is_lost_is_replaced_with_the_others_until_these_have_joined(stage):
    follows = next_stage(stage, HealingEvent.RANK_LOST)
    if stage is HealingStage.FORMING:
        assert follows is HealingStage.ENDING
    else:
        assert follows is (stage if stage in ENDS | WITHOUT_PLACES else HealingStage.FAILED)


@pytest.mark.parametrize("stage", list(HealingStage))
def test_a_new_engine_that_dies_fails_what_has_given_places_and_changes_no_end(stage):
    stays = stage in ENDS | WITHOUT_PLACES
    follows = next_stage(stage, HealingEvent.NEWCOMER_DIED)
    assert follows is (stage if stays else HealingStage.FAILED)


@pytest.mark.parametrize("stage", sorted(ENDS))
def test_from_an_end_only_losses_are_heard_of(stage):
    assert set(TRANSITIONS[stage]) == {HealingEvent.RANK_LOST, HealingEvent.NEWCOMER_DIED}
    with pytest.raises(KeyError, match=f"{stage}.*{HealingEvent.FORMED}"):
        next_stage(stage, HealingEvent.FORMED)
