import gc
import weakref
from time import monotonic

from jupyter_dist.frameworks.torch.departed import HELD_S, Departed
from tests.patience import wait_until


class Group:
    """Something of which it can be seen whether it lives."""


def test_a_group_outlives_its_last_user_by_a_moment():
    departed, group = Departed(), Group()
    alive = weakref.ref(group)
    departed.hold([group])
    del group
    departed.let_go(monotonic())
    gc.collect()
    assert alive() is not None
    departed.let_go(monotonic() + HELD_S)
    wait_until(lambda: alive() is None, 10, "the group is gone")


def test_nothing_held_is_nothing_to_do():
    Departed().let_go()
