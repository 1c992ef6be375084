"""Messages that only one process can read, whoever carries or keeps them on the way.

An agent that is started through someone else's programs makes a key pair and says the public
half. What is sealed for it can go through their queues, logs and databases.
"""

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from msgspec import Struct

from jupyter_dist.errors import MalformedMessage

_KEY_BYTES = 32
_NONCE_BYTES = 12
_PURPOSE = b"jupyter-dist invitation"


class Readiness(Struct, frozen=True):
    """What an agent says of itself before it is handed a sealed invitation."""

    wire: str
    version: str
    public_key: bytes


class SealedBox:
    """Holds the private half of a key pair, in memory only."""

    def __init__(self) -> None:
        self._key = X25519PrivateKey.generate()

    @property
    def public_key(self) -> bytes:
        """The half that everybody may know."""
        return self._key.public_key().public_bytes_raw()

    def open(self, sealed: bytes) -> bytes:
        """Read what was sealed for this key; raises MalformedMessage for anything else."""
        sender, nonce = sealed[:_KEY_BYTES], sealed[_KEY_BYTES : _KEY_BYTES + _NONCE_BYTES]
        try:
            shared = self._key.exchange(X25519PublicKey.from_public_bytes(sender))
            cipher = _cipher(shared, sender, self.public_key)
            return cipher.decrypt(nonce, sealed[_KEY_BYTES + _NONCE_BYTES :], _PURPOSE)
        except (InvalidTag, ValueError) as error:
            raise MalformedMessage("this message was not sealed for this process") from error


def seal(message: bytes, public_key: bytes) -> bytes:
    """Seal a message for the owner of this key; raises MalformedMessage where it is none."""
    own = X25519PrivateKey.generate()
    sender = own.public_key().public_bytes_raw()
    try:
        shared = own.exchange(X25519PublicKey.from_public_bytes(public_key))
    except ValueError as error:
        raise MalformedMessage("what should be a public key is none") from error
    nonce = os.urandom(_NONCE_BYTES)
    cipher = _cipher(shared, sender, public_key)
    return sender + nonce + cipher.encrypt(nonce, message, _PURPOSE)


def _cipher(shared: bytes, sender: bytes, receiver: bytes) -> ChaCha20Poly1305:
    derive = HKDF(SHA256(), _KEY_BYTES, salt=sender + receiver, info=_PURPOSE)
    return ChaCha20Poly1305(derive.derive(shared))
