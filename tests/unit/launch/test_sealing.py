import pytest

from jupyter_dist.errors import MalformedMessage
from jupyter_dist.launch.sealing import SealedBox, seal

MESSAGE = b"an invitation \x00\xff" * 100


def test_its_owner_reads_it():
    box = SealedBox()
    assert box.open(seal(MESSAGE, box.public_key)) == MESSAGE


def test_nobody_else_reads_it():
    sealed = seal(MESSAGE, SealedBox().public_key)
    assert b"invitation" not in sealed
    with pytest.raises(MalformedMessage, match="not sealed"):
        SealedBox().open(sealed)


def test_the_same_message_never_looks_the_same():
    key = SealedBox().public_key
    assert seal(MESSAGE, key) != seal(MESSAGE, key)


@pytest.mark.parametrize("position", [0, 40, 60, -1], ids=["key", "nonce", "text", "end"])
def test_one_that_was_changed_is_refused(position):
    box = SealedBox()
    sealed = bytearray(seal(MESSAGE, box.public_key))
    sealed[position] ^= 1
    with pytest.raises(MalformedMessage, match="not sealed"):
        box.open(bytes(sealed))


@pytest.mark.parametrize("sealed", [b"", b"x" * 31, b"x" * 50, b"\x00" * 100])
def test_something_else_is_refused(sealed):
    with pytest.raises(MalformedMessage, match="not sealed"):
        SealedBox().open(sealed)


@pytest.mark.parametrize("key", [b"", b"short", b"\x00" * 32])
def test_for_what_is_no_key_nothing_is_sealed(key):
    with pytest.raises(MalformedMessage, match="public key"):
        seal(MESSAGE, key)
