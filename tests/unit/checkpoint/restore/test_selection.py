"""Which checkpoint is restored when ranks see different things."""

import pytest

from jupyter_dist.checkpoint.restore.selection import PartSeen, StepSeen, choose
from jupyter_dist.errors import CheckpointDamaged, CheckpointNotFound, CheckpointTooNew

DIR = "/data/run"
ID, OTHER = "a" * 32, "b" * 32
PARTS = tuple(PartSeen(f"arrays-0000{rank}.safetensors", 100 + rank) for rank in range(2))
NEEDS = tuple(PartSeen(part.name, part.nbytes, f"node{i}") for i, part in enumerate(PARTS))


def whole(step, checkpoint_id=ID, parts=PARTS):
    return StepSeen(step, parts, checkpoint_id, NEEDS)


def test_the_newest_is_chosen_and_who_has_its_manifest_is_said():
    choice = choose(DIR, None, [[whole(3), whole(7, OTHER)], [whole(3), StepSeen(7, PARTS)]])
    assert (choice.step, choice.holders) == (7, (0,))
    assert choice.passed_over == ()


def test_the_asked_step_is_chosen():
    assert choose(DIR, 3, [[whole(3), whole(7)]]).step == 3


def test_parts_may_lie_on_different_hosts_and_the_manifest_on_one():
    seen = [[whole(3, parts=PARTS[:1])], [StepSeen(3, PARTS[1:])]]
    assert choose(DIR, None, seen).holders == (0,)


SHORT = (PARTS[0], PartSeen(PARTS[1].name, 60))


@pytest.mark.parametrize(
    ("step", "seen", "kind", "words"),
    [
        (None, [[], []], CheckpointNotFound, DIR),
        (5, [[]], CheckpointNotFound, "step 5, none of"),
        (5, [[whole(3)], [whole(7)]], CheckpointNotFound, "step 5. Accepted: 7, 3"),
        (99, [[whole(step) for step in range(20)]], CheckpointNotFound, "19, 15 and 15 more"),
        (7, [[whole(7, parts=PARTS[:1])]], CheckpointDamaged, "arrays-00001.safetensors, node1"),
        (7, [[whole(7, parts=SHORT)]], CheckpointDamaged, "arrays-00001.safetensors, 60, 101"),
        (7, [[StepSeen(7, PARTS)], [StepSeen(7, PARTS)]], CheckpointDamaged, "ranks 0-1"),
        (
            None,
            [[whole(3, parts=()), StepSeen(7, PARTS, trouble="it is damaged")]],
            CheckpointDamaged,
            "rank 0: it is damaged",
        ),
    ],
)
def test_what_cannot_be_restored_is_told_with_what_is_there(step, seen, kind, words):
    with pytest.raises(kind) as caught:
        choose(DIR, step, seen)
    for word in words.split(", "):
        assert word in str(caught.value)


def test_a_short_part_on_one_host_does_not_matter_where_another_has_it_whole():
    assert choose(DIR, 7, [[whole(7, parts=SHORT)], [whole(7)]]).step == 7


def test_without_a_step_an_older_whole_checkpoint_is_taken_and_why_is_said():
    seen = [[whole(3), whole(7, parts=()), StepSeen(9, PARTS, trouble="DIR/9: is damaged")]]
    choice = choose(DIR, None, seen)
    assert choice.step == 3
    assert choice.passed_over[0] == "rank 0: DIR/9: is damaged"
    assert f"step 7 in {DIR} " in choice.passed_over[1]


def test_a_newer_format_is_an_error_of_its_own_when_it_is_asked_for():
    new = StepSeen(9, PARTS, trouble="format 2 is newer", is_too_new=True)
    with pytest.raises(CheckpointTooNew, match="format 2 is newer"):
        choose(DIR, 9, [[new, whole(3)]])
    assert choose(DIR, None, [[new, whole(3)]]).passed_over == ("rank 0: format 2 is newer",)


def test_a_damaged_manifest_does_not_matter_where_another_host_has_a_good_one():
    seen = [[StepSeen(7, PARTS, trouble="damaged")], [whole(7)]]
    assert choose(DIR, 7, seen).holders == (1,)


def test_two_checkpoints_of_the_same_step_are_not_mixed():
    seen = [[whole(7, parts=PARTS[:1])], [whole(7, OTHER, parts=PARTS)]]
    assert choose(DIR, None, seen).holders == (1,)
