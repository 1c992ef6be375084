"""Whatever is displayed, the cell ends with the truth, and no line is lost."""

import pytest

from .displays import DISPLAYS


def test_names_are_not_used_twice():
    names = [deed.name for deed in DISPLAYS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("deed", DISPLAYS, ids=lambda deed: deed.name)
def test_a_hostile_display_costs_nothing(deed, scene, in_background):
    rank = scene.run(deed, in_background)
    assert rank.status == deed.status, rank.error
    assert rank.value_repr == deed.value
    assert deed.says in rank.stdout
    repr(rank)
    scene.assert_as_before()
