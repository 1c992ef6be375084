from types import SimpleNamespace

import pytest

from jupyter_dist.engine.execution.namespace import CurrentCommunicator

NAMES = ("all_reduce", "broadcast", "barrier", "rank", "size", "all_gather", "all_gather_object")
COMM = CurrentCommunicator(SimpleNamespace(**dict.fromkeys((*NAMES, "split", "recorder"), 9)))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("allreduce", "all_reduce"),
        ("Allreduce", "all_reduce"),
        ("bcast", "broadcast"),
        ("Get_rank", "rank"),
        ("Get_size", "size"),
        ("get_world_size", "size"),
        ("all_gather_into_tensor", "all_gather"),
        ("psum", "all_reduce"),
        ("new_group", "split"),
    ],
)
def test_names_of_other_libraries_lead_to_ours(name, meant):
    with pytest.raises(AttributeError, match=rf" comm\.{meant}\?"):
        getattr(COMM, name)


def test_a_name_like_none_is_answered_with_all_that_there_are():
    with pytest.raises(AttributeError, match=", ".join(dir(COMM))):
        COMM.xyzzy  # noqa: B018
    assert not hasattr(COMM, "__array__")


def test_only_what_cells_use_is_offered():
    assert {"rank", "all_reduce", "split"} < set(dir(COMM))
    assert "recorder" not in dir(COMM)
    assert COMM.recorder == 9
