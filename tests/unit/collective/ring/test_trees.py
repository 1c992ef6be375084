import pytest

from jupyter_dist.collective.ring.trees import children


@pytest.mark.parametrize("size", range(1, 34))
def test_every_place_but_the_root_has_one_parent_and_few_steps_to_the_root(size):
    parents = {}
    for place in range(size):
        for child in children(place, size):
            assert child not in parents
            parents[child] = place
    assert set(parents) == set(range(1, size))
    steps = {0: 0}
    for place in range(1, size):
        steps[place] = steps[parents[place]] + 1
    assert 2 ** max(steps.values()) <= size
