"""CURVE keys as values, in Z85 text: who proves what to whom. Making them is control's job."""

import msgspec


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
        """Return what engines dial with."""
        return Credentials(self.server.public, self.engine)

    def for_client(self) -> Credentials:
        """Return what notebooks and tools dial with."""
        return Credentials(self.server.public, self.client)
