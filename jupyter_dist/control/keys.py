"""CURVE keys of one cluster: the coordinator's, and one pair for each kind of peer."""

import msgspec
import zmq


class KeyPair(msgspec.Struct, frozen=True):
    """A CURVE key pair in Z85 text."""

    public: str
    secret: str


class Credentials(msgspec.Struct, frozen=True):
    """What a peer needs to dial: whom to expect, and its own key pair."""

    server_public: str
    own: KeyPair


class ClusterKeys(msgspec.Struct, frozen=True):
    """Every key of a cluster; stays in the coordinator's memory."""

    server: KeyPair
    engine: KeyPair
    client: KeyPair

    def for_engine(self) -> Credentials:
        """Give what engines dial with."""
        return Credentials(self.server.public, self.engine)

    def for_client(self) -> Credentials:
        """Give what notebooks and tools dial with."""
        return Credentials(self.server.public, self.client)


def make_key_pair() -> KeyPair:
    """Make one new key pair."""
    public, secret = zmq.curve_keypair()
    return KeyPair(public.decode(), secret.decode())


def make_cluster_keys() -> ClusterKeys:
    """Make the keys of a new cluster."""
    return ClusterKeys(make_key_pair(), make_key_pair(), make_key_pair())
