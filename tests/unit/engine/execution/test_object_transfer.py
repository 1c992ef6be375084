from types import SimpleNamespace

import numpy as np
import pytest

from jupyter_dist.control.memory_file import MemoryFile
from jupyter_dist.engine.execution.namespace import Namespace
from jupyter_dist.engine.execution.object_transfer import ObjectTransfer
from jupyter_dist.model.hosts.rank import RankInfo
from jupyter_dist.model.transfer.pieces import LARGE_FROM_BYTES
from jupyter_dist.protocol.messages import FetchObject, StoreObjects
from jupyter_dist.protocol.objects import pack, unpack

LARGE = bytearray(range(256)) * (LARGE_FROM_BYTES // 256)
FRAMES = pack("x", LARGE)
SIZES = tuple(memoryview(frame).nbytes for frame in FRAMES)


class Executor:
    """Runs what moves objects at once, as the main thread does."""

    was_interrupted = False

    def run_transfer(self, _request_id, _label, act):
        try:
            return None, act()
        except Exception as error:  # noqa: BLE001  (as the real one)
            return error, None


@pytest.fixture
def names():
    return {"small": 5, "large": LARGE}


@pytest.fixture
def namespace(names):
    shell = SimpleNamespace(user_ns=names, push=lambda values, **_: names.update(values))
    return Namespace(shell, RankInfo(0, 1, 0, 1, 0, "a"))


@pytest.fixture
def transfer(namespace):
    return ObjectTransfer(Executor(), namespace)


@pytest.fixture
def file():
    with MemoryFile.make() as file:
        yield file


def test_what_is_large_is_written_to_the_file_and_what_is_small_is_sent(transfer, file):
    problem, sizes, frames = transfer.fetch(FetchObject("r1", "small", file.name))
    assert (problem, sizes, unpack("small", frames)) == ("", (), 5)
    assert file.used_bytes == 0
    problem, sizes, frames = transfer.fetch(FetchObject("r1", "large", file.name))
    assert (problem, sizes, frames) == ("", SIZES, [])
    file.freeze()
    assert unpack("large", file.map(sizes)) == LARGE


def test_without_a_file_or_room_in_it_what_is_large_is_sent(transfer, file):
    file.freeze()
    for name in ("", "1/2/gone", file.name):
        problem, sizes, frames = transfer.fetch(FetchObject("r1", "large", name))
        assert (problem, sizes, unpack("large", frames)) == ("", SIZES, LARGE)


def test_what_is_not_there_is_a_problem(transfer, file):
    assert "'none'" in transfer.fetch(FetchObject("r1", "none", file.name))[0]


def test_an_expression_is_evaluated_and_what_it_raises_is_a_problem(transfer, names):
    names["w"] = np.arange(10)
    _, _, frames = transfer.fetch(FetchObject("r1", "w[2:4] * small"))
    assert unpack("w", frames).tolist() == [10, 15]
    assert "ZeroDivisionError" in transfer.fetch(FetchObject("r1", "small / 0"))[0]


@pytest.mark.parametrize("name", ["large", "array"])
def test_what_is_larger_than_wanted_stays(transfer, names, name):
    names["array"] = np.zeros(LARGE_FROM_BYTES, np.uint8)
    assert transfer.fetch(FetchObject("r1", name, most_bytes=LARGE_FROM_BYTES + 1000))[0] == ""
    problem, sizes, frames = transfer.fetch(FetchObject("r1", name, most_bytes=1000))
    assert "1000 B" in problem
    assert (sizes, frames) == ((), [])


def test_the_value_of_a_cell_is_that_of_its_own(transfer, names, namespace):
    names["Out"] = {3: "value"}
    wanted = FetchObject("r1", "Out[3]", cell_id="cell-1")
    assert "no longer kept" in transfer.fetch(wanted)[0]
    namespace.keep_value(3, "cell-1")
    assert unpack("Out", transfer.fetch(wanted)[2]) == "value"
    namespace.keep_value(3, "cell-2")
    assert "no longer kept" in transfer.fetch(wanted)[0]
    for label in range(1001):
        namespace.keep_value(label, f"cell-{label}")
    names["Out"] = {0: "gone", 1000: "there"}
    assert transfer.fetch(FetchObject("r1", "Out[0]", cell_id="cell-0"))[0]
    names["Out"].clear()
    assert transfer.fetch(FetchObject("r1", "Out[1000]", cell_id="cell-1000"))[0]


def test_what_lies_in_a_file_is_stored_all_or_none(transfer, names, file, tmp_path):
    file.write(FRAMES)
    order = StoreObjects("r1", ("x",), (len(FRAMES),), sizes=SIZES, file=file.name)
    assert "may still change" in transfer.store(order, [])
    assert "x" not in names
    file.freeze()
    assert transfer.store(order, []) == ""
    assert names.pop("x") == LARGE
    path = tmp_path / "placed"
    path.write_bytes(file.read_at(0, 1 << 30))
    order = StoreObjects("r1", ("x",), (len(FRAMES),), str(path), SIZES)
    assert transfer.store(order, []) == ""
    assert names.pop("x") == LARGE
    path.write_bytes(b"short")
    assert "cannot be read" in transfer.store(order, [])
    assert "x" not in names
