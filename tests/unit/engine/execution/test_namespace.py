from types import SimpleNamespace

import pytest

from jupyter_dist.engine.execution.namespace import CurrentCommunicator

COMM = CurrentCommunicator(SimpleNamespace(all_reduce=1, broadcast=2, barrier=3, rank=4, size=5))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("allreduce", "all_reduce"),
        ("Allreduce", "all_reduce"),
        ("bcast", "broadcast"),
        ("Get_rank", "rank"),
        ("Get_size", "size"),
    ],
)
def test_names_of_other_libraries_lead_to_ours(name, meant):
    with pytest.raises(AttributeError, match=rf" comm\.{meant}\?"):
        getattr(COMM, name)


def test_a_name_like_none_is_answered_with_all_that_there_are():
    with pytest.raises(AttributeError, match="all_reduce, barrier, broadcast, rank, size"):
        COMM.xyzzy  # noqa: B018
    assert not hasattr(COMM, "__array__")
