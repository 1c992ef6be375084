"""Values of cells and variables of ranks, as if they were here."""

import os

import numpy as np
import pytest

from jupyter_dist.errors import DistError, TransferError

from .leftovers import memory_files


def test_the_value_of_a_cell_is_the_object(four):
    result = four.run("import numpy as np\n{'sum': np.full(3, rank)}", label=7)
    assert result[2].value["sum"].tolist() == [2, 2, 2]
    assert result[2].value is result[2].value
    assert four.run("made = 1")[0].value is None
    again = four.run("'again'", label=7)
    with pytest.raises(TransferError, match=r"rank 0: .*Out\[7\]"):
        result[0].value  # noqa: B018  (fetched when it is touched)
    assert result[2].value["sum"][0] == 2, "it was fetched before"
    assert again[0].value == "again"
    assert four.run("lambda: rank")[3].value.__name__ == "<lambda>"
    with pytest.raises(TransferError, match=r"rank 1: .*lock"):
        four.run("import threading\nthreading.Lock()")[1].value  # noqa: B018


def test_a_value_whose_rank_is_lost_says_so(start):
    cluster = start("localhost:2")
    result = cluster.run("rank + 5")
    lost = cluster.run("import os\nif rank == 1: os._exit(9)\n7")
    assert lost[0].value == 7
    with pytest.raises(TransferError, match=r"rank 1 .*code 9"):
        lost[1].value  # noqa: B018
    with pytest.raises(DistError, match="rank 1"):
        result[1].value  # noqa: B018


def test_variables_are_fetched_sent_stacked_and_deleted(four):
    variables = four.vars
    variables.x = 1
    variables.x[2] = np.arange(3)
    assert four.run("type(x).__name__")[2].value_repr == "'ndarray'"
    assert variables.x[2].tolist() == [0, 1, 2]
    assert repr(variables.x).count("\n") == 3, "the name, heads, and two kinds of values"
    four.run("x = rank * 2.5")
    assert variables.x.gather().tolist() == [0.0, 2.5, 5.0, 7.5]
    assert "x" in dir(variables)
    del variables.x[1]
    with pytest.raises(TransferError, match=r"rank 1: .*'x'"):
        variables.x[1]
    del variables.x[0], variables.x[2], variables.x[3]
    assert "x" not in dir(variables)


def test_a_part_of_a_large_array_is_made_on_its_rank(four):
    four.run("import numpy as np\nlarge = np.arange(1 << 20) + rank")
    large = four.vars.large[3]
    assert large[-2:].tolist() == [(1 << 20) + 1, (1 << 20) + 2]
    assert large.fetch().sum() == np.asarray(large).sum()
    assert four.pull("large[:2].tolist()", 0, kind=list) == {0: [0, 1]}
    with pytest.raises(TransferError, match=r"rank 0: large.* is of type list"):
        four.pull("large[:2].tolist()", 0, kind=tuple)
    with pytest.raises(TransferError, match=r"ranks 0-3: .*8 MiB"):
        four.pull("large", most_bytes=1 << 20)
    with pytest.raises(TransferError, match=r"rank 0: .*IndexError"):
        four.pull("large[1, 2]", 0)
    del large
    four.run("del large")
    assert memory_files(os.getpid()) == []


@pytest.mark.slow
def test_the_view_of_a_tensor_travels_without_its_storage(four):
    pytest.importorskip("torch", reason="torch is no requirement of the tests")
    four.run("import torch\ntensor = torch.arange(1 << 20)")
    assert len(four.pull("__import__('pickle').dumps(tensor[:2])", 0)[0]) > 1 << 20
    assert four.pull("tensor[:2]", 0, most_bytes=10_000)[0].tolist() == [0, 1]
    four.run("del tensor")
