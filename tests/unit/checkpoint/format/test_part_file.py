import errno
import os
import resource
import signal
import threading
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from fakes.checkpoint_files import PART, SPOILERS, write_part

from jupyter_dist.checkpoint.format import part_file
from jupyter_dist.checkpoint.format.manifest import Tensor
from jupyter_dist.checkpoint.format.number_types import NAMES
from jupyter_dist.checkpoint.format.part_file import (
    CHUNK_BYTES,
    PartReader,
    PartWriter,
    PickleWriter,
)
from jupyter_dist.errors import CheckpointDamaged, CheckpointFailed

ARRAYS = {
    "['w']": np.arange(6, dtype="float32").reshape(2, 3),
    "['scalar']": np.array(3.5),
    "['empty']": np.zeros((0, 3), "int16"),
    "['mask']": np.array([True, False, True]),
    "['é']": np.arange(3, dtype="int64"),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / PART


@pytest.fixture
def written(path):
    return write_part(path, ARRAYS)


def as_array(data, like):
    """Bytes that were read, as an array of the type and shape of another."""
    return data.view(like.dtype).reshape(like.shape)


def read_all(path, pieces, part):
    """Read every piece; what is damaged raises."""
    with PartReader(path, part) as reader:
        return {name: reader.read(piece) for name, piece in pieces.items()}


def test_what_was_written_is_read(path, written):
    pieces, part = written
    with PartReader(path, part) as reader:
        for name, array in ARRAYS.items():
            found = as_array(reader.read(pieces[name]), array)
            np.testing.assert_array_equal(found, array, strict=True)
            found[...] = 0  # it is the reader's own


def test_the_file_is_one_of_safetensors(path, written):
    found = safetensors.numpy.load_file(path)
    assert set(found) == set(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array, strict=True)


@pytest.mark.parametrize("name", NAMES)
def test_numbers_of_every_type_come_back(path, name):
    array = np.arange(4).astype(getattr(ml_dtypes, name, name))
    pieces, part = write_part(path, {"x": array, "byte": np.ones(1, "uint8")})
    with safetensors.safe_open(path, "numpy") as file:  # it takes the header for a good one
        assert set(file.keys()) == {"x", "byte"}
    with PartReader(path, part) as reader:
        assert reader.read(pieces["x"]).tobytes() == array.tobytes()


def test_every_array_begins_at_a_multiple_of_its_size(path):
    arrays = {f"{size}": np.ones(3, f"u{size}") for size in (1, 8, 2, 4)}
    pieces, _ = write_part(path, arrays)
    assert [pieces[name].offset % int(name) for name in arrays] == [0, 0, 0, 0]


def test_arrays_are_written_in_any_order_and_from_any_buffer(path):
    tensors = [Tensor("a", "uint8", (3,)), Tensor("b", "float32", (1,)), Tensor("c", "int8", (2,))]
    with PartWriter(path, tensors, rank=2, host="nodeC") as writer:
        pieces = {
            "c": writer.write("c", memoryview(b"xy"), ((0, 2),)),
            "a": writer.write("a", bytearray(b"abc"), ((0, 3),)),
            "b": writer.write("b", np.array([1], "f4"), ((4, 5),)),
        }
        part = writer.finish()
    assert (part.name, part.rank, part.host) == (PART, 2, "nodeC")
    assert part.nbytes == path.stat().st_size
    assert {piece.rank for piece in pieces.values()} == {2}
    assert pieces["b"].box == ((4, 5),)
    found = read_all(path, pieces, part)
    assert {name: data.tobytes() for name, data in found.items() if name != "b"} == {
        "a": b"abc",
        "c": b"xy",
    }


def test_a_file_may_have_nothing_in_it(path):
    pieces, part = write_part(path, {})
    assert read_all(path, pieces, part) == {}
    assert safetensors.numpy.load_file(path) == {}


def test_how_far_it_is_is_told_on_the_way(path):
    array = np.zeros(2 * CHUNK_BYTES + 5, "uint8")
    told, heard = [], []
    pieces, part = write_part(path, {"x": array}, on_bytes=told.append)
    with PartReader(path, part, heard.append) as reader:
        reader.read(pieces["x"])
    assert told == [CHUNK_BYTES, CHUNK_BYTES, 5]
    assert sum(heard) == array.nbytes
    assert len(heard) >= 3


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (np.zeros((4, 4), "f4")[:, :2], "numpy.ascontiguousarray"),
        (np.zeros((2, 4), ">f4"), "byte order"),
        (np.zeros((2, 5), "f4"), r"40 bytes came for float32 of shape \(2, 4\), which has 32"),
        (b"", "0 bytes came"),
    ],
)
def test_data_that_is_not_as_was_said_is_refused(path, data, words):
    tensor = Tensor("x", "float32", (2, 4))
    with (
        PartWriter(path, [tensor], rank=0, host="h") as writer,
        pytest.raises(ValueError, match=words),
    ):
        writer.write("x", data, ((0, 2), (0, 4)))


def test_a_file_that_lacks_an_array_is_not_finished(path):
    tensors = [Tensor("x", "float32", (2,)), Tensor("y", "float32", (2,))]
    with PartWriter(path, tensors, rank=0, host="h") as writer:
        writer.write("x", np.zeros(2, "f4"), ((0, 2),))
        with pytest.raises(ValueError, match=f"{PART} lacks y"):
            writer.finish()


@pytest.mark.parametrize("keys", [("x", "x"), ("__metadata__",)])
def test_names_that_cannot_stand_in_the_header_are_refused(path, keys):
    with pytest.raises(ValueError, match=keys[0]):
        PartWriter(path, [Tensor(key, "int8", (1,)) for key in keys], rank=0, host="h")
    assert not path.exists()


def test_pickles_lie_one_behind_the_other(tmp_path):
    path = tmp_path / "objects-00000.pickles"
    with PickleWriter(path, rank=1, host="nodeB") as writer:
        pieces = {"a": writer.write("a", b"first"), "b": writer.write("b", b"")}
        pieces["c"] = writer.write("c", b"third")
        part = writer.finish()
    assert path.read_bytes() == b"firstthird"
    assert {name: bytes(data) for name, data in read_all(path, pieces, part).items()} == {
        "a": b"first",
        "b": b"",
        "c": b"third",
    }


def test_a_flipped_bit_anywhere_is_found(path, written):
    pieces, part = written
    for position, good in enumerate(path.read_bytes()):
        put_byte(path, position, good ^ 1 << position % 8)
        with pytest.raises(CheckpointDamaged, match=PART):
            read_all(path, pieces, part)
        put_byte(path, position, good)
    assert position == part.nbytes - 1
    assert part.header_nbytes + sum(piece.nbytes for piece in pieces.values()) == part.nbytes
    read_all(path, pieces, part)


def put_byte(path, position, value):
    with path.open("r+b") as file:
        file.seek(position)
        file.write(bytes([value]))


def test_the_array_whose_bytes_differ_is_named(path, written):
    pieces, part = written
    put_byte(path, pieces["['w']"].offset, 0xFF)
    with PartReader(path, part) as reader:
        reader.read(pieces["['mask']"])
        with pytest.raises(CheckpointDamaged) as caught:
            reader.read(pieces["['w']"], "['w'] of rank 0")
    assert str(caught.value).startswith(f"{path}: ")
    assert "['w'] of rank 0" in str(caught.value)


def test_a_file_that_is_cut_while_it_is_read_is_found(path, written):
    pieces, part = written
    with PartReader(path, part) as reader:
        os.truncate(path, pieces["['mask']"].offset + 1)
        with pytest.raises(CheckpointDamaged, match="2 bytes"):
            reader.read(pieces["['mask']"])


@pytest.mark.parametrize("name", SPOILERS)
def test_what_is_not_the_file_that_was_written_is_not_read(path, written, name):
    SPOILERS[name](path)
    with pytest.raises(CheckpointDamaged, match=PART):
        PartReader(path, written[1])


@pytest.mark.parametrize("is_link", [True, False])
def test_a_file_that_is_there_is_not_overwritten(path, written, is_link):
    if is_link:
        SPOILERS["link"](path)
    before = path.read_bytes()
    with pytest.raises(CheckpointFailed, match=os.strerror(errno.EEXIST)):
        write_part(path, ARRAYS)
    assert path.read_bytes() == before


def test_a_full_disk_is_told_with_a_next_step(small_disk):
    arrays = {"x": np.ones(2 << 20, "uint8")}
    with pytest.raises(CheckpointFailed, match=rf"{os.strerror(errno.ENOSPC)} \(0 B .*keep_last"):
        write_part(small_disk / PART, arrays)


def test_a_disk_too_full_for_the_header_is_told(small_disk):
    tensors = [Tensor(f"['layer {number:06d}']", "int8", (0,)) for number in range(20_000)]
    with pytest.raises(CheckpointFailed, match=os.strerror(errno.ENOSPC)):
        PartWriter(small_disk / PART, tensors, rank=0, host="h")


def test_a_limit_on_the_size_of_files_is_told(path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises(CheckpointFailed, match=f"{os.strerror(errno.EFBIG)}.*ulimit -f"):
            write_part(path, {"x": np.ones(2 << 20, "uint8")})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_an_interrupt_ends_the_wait_for_a_slow_disk(path, monkeypatch):
    """A system call of minutes would let nobody interrupt the rank."""
    main, disk_is_done, callers = threading.main_thread(), threading.Event(), []

    def fsync(fd):
        callers.append(threading.current_thread())
        signal.pthread_kill(main.ident, signal.SIGINT)
        disk_is_done.wait(20)

    monkeypatch.setattr(part_file, "os", SimpleNamespace(**{**vars(os), "fsync": fsync}))
    before = set(os.listdir("/proc/self/fd"))
    with PickleWriter(path, rank=0, host="nodeA") as writer:
        writer.write("a", b"123")
        with pytest.raises(KeyboardInterrupt):
            writer.finish()
    assert not disk_is_done.is_set()
    disk_is_done.set()
    callers[0].join(20)
    assert callers[0] is not main
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_disk_that_fails_at_the_end_is_an_error(path, monkeypatch):
    def fsync(fd):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(part_file, "os", SimpleNamespace(**{**vars(os), "fsync": fsync}))
    with PickleWriter(path, rank=0, host="nodeA") as writer:
        writer.write("a", b"123")
        with pytest.raises(CheckpointFailed, match="Input/output error"):
            writer.finish()
