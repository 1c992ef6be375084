"""How two ranks prove to each other that they belong to the same communicator.

    connecting rank                              accepting rank
      | -- hello: generation, both ranks, nonce ->|
      | <------------- challenge: nonce, MAC -----|   proves the key over both nonces
      | -- proof: MAC --------------------------->|   so does the other side; then data flows

Pure functions over bytes of fixed size; each MAC is HMAC-SHA256 with the communicator's key.
"""

import hashlib
import hmac
import os
import struct

import msgspec

_HELLO = struct.Struct("!4sQII32s")
_MAGIC = b"JDH1"
_NONCE_BYTES = 32
_MAC_BYTES = 32
HELLO_BYTES = _HELLO.size
CHALLENGE_BYTES = _NONCE_BYTES + _MAC_BYTES
PROOF_BYTES = _MAC_BYTES


class Membership(msgspec.Struct, frozen=True):
    """What makes a process a rank of one communicator."""

    rank: int
    size: int
    generation: int
    key: bytes


def write_hello(me: Membership, peer: int) -> bytes:
    """Return who connects to whom, with a fresh nonce."""
    return _HELLO.pack(_MAGIC, me.generation, me.rank, peer, os.urandom(_NONCE_BYTES))


def read_hello(me: Membership, hello: bytes) -> int | None:
    """Return the rank that says hello, or None when it is not meant for this communicator."""
    magic, generation, peer, target, _nonce = _HELLO.unpack(hello)
    is_for_us = magic == _MAGIC and generation == me.generation and target == me.rank
    if not is_for_us or not 0 <= peer < me.size or peer == me.rank:
        return None
    return int(peer)


def write_challenge(me: Membership, hello: bytes) -> bytes:
    """Answer a hello with a nonce of our own and the proof that we know the key."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + _mac(me, b"accepting", hello, nonce)


def answer_challenge(me: Membership, hello: bytes, challenge: bytes) -> bytes | None:
    """Return our proof, or None when the other side does not know the key."""
    nonce, mac = challenge[:_NONCE_BYTES], challenge[_NONCE_BYTES:]
    if not hmac.compare_digest(mac, _mac(me, b"accepting", hello, nonce)):
        return None
    return _mac(me, b"connecting", hello, nonce)


def is_proof(me: Membership, hello: bytes, challenge: bytes, proof: bytes) -> bool:
    """Return whether the connecting side knows the key."""
    return hmac.compare_digest(proof, _mac(me, b"connecting", hello, challenge[:_NONCE_BYTES]))


def _mac(me: Membership, role: bytes, hello: bytes, nonce: bytes) -> bytes:
    return hmac.new(me.key, role + hello + nonce, hashlib.sha256).digest()
