"""Memory for copies: which is lent, kept and given back."""

import numpy as np
import pytest

from jupyter_dist.checkpoint.save.contents import take
from jupyter_dist.checkpoint.values.copy_memory import SMALL_BYTES, CopyMemory

MIB = 1 << 20


def save(memory, *arrays):
    """Copy what a save would, and take it back; gives where the copies lay."""
    copies = [memory.copy(array) for array in arrays]
    for array, copied in zip(arrays, copies, strict=True):
        assert copied.dtype == array.dtype
        assert np.array_equal(copied, array)
        assert not np.shares_memory(copied, array)
    memory.settle()
    return [copied.ctypes.data for copied in copies]


def ones(mib, dtype=np.float32):
    return np.ones((2, (mib << 19) // np.dtype(dtype).itemsize), dtype)


def test_one_save_keeps_nothing():
    memory = CopyMemory()
    save(memory, ones(2), ones(3))
    assert memory.kept_bytes == 0


def test_the_third_save_takes_what_the_second_has_left():
    memory = CopyMemory()
    save(memory, ones(2), ones(3))
    second = save(memory, ones(2), ones(3))
    assert memory.kept_bytes == 5 * MIB
    assert save(memory, ones(2), ones(3)) == second
    assert save(memory, ones(3, np.int16), ones(2, np.float64)) == second[::-1]


def test_what_is_lent_is_lent_once():
    memory = CopyMemory()
    for _ in range(2):
        save(memory, ones(2), ones(2))
    first, second = memory.copy(ones(2)), memory.copy(ones(2) * 2)
    assert (first == 1).all()
    assert (second == 2).all()


def test_another_tree_takes_the_place_of_the_former():
    memory = CopyMemory()
    for _ in range(2):
        save(memory, ones(2), ones(3))
    copied = memory.copy(ones(4))
    assert memory.kept_bytes == 0  # already while it is saved
    memory.settle()
    assert copied.all()
    save(memory, ones(4), ones(2))
    assert memory.kept_bytes == 4 * MIB


def test_it_is_given_back_on_request():
    memory = CopyMemory()
    for _ in range(2):
        save(memory, ones(2))
    memory.give_back()
    assert memory.kept_bytes == 0
    save(memory, ones(2))
    assert memory.kept_bytes == 0


@pytest.mark.parametrize("shape", [(), (0,), (3, 5), (SMALL_BYTES // 8,), (2, SMALL_BYTES, 1)])
def test_arrays_of_every_size_are_copied(shape):
    memory = CopyMemory()
    array = np.random.default_rng(0).random(shape)
    copied = memory.copy(np.asarray(array))
    array[...] = -1
    assert copied.shape == shape
    assert (copied >= 0).all()


def test_contents_take_and_give_it():
    memory, array = CopyMemory(), ones(2)
    for _ in range(2):
        contents = take({"a": array, "b": [array[0]]}, memory)
        array += 1
        assert (contents.array(0, 0) == array - 1).all()
        contents.release()
        contents.release()  # an error may come after the bytes are written
    assert memory.kept_bytes == 3 * MIB


def test_a_tree_that_cannot_be_taken_lends_nothing(monkeypatch):
    memory = CopyMemory()
    real, taken = memory.copy, []

    def copy(array):
        if taken:
            raise MemoryError
        taken.append(array)
        return real(array)

    monkeypatch.setattr(memory, "copy", copy)
    with pytest.raises(MemoryError):
        take([ones(2), ones(2)], memory)
    monkeypatch.undo()
    save(memory, ones(2))
    assert memory.kept_bytes == 2 * MIB  # the failed one counts as one that asked for it
