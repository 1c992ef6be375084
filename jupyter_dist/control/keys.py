"""Makes the CURVE keys of one cluster: the coordinator's, and one pair for each kind of peer."""

import zmq

from jupyter_dist.protocol.credentials import ClusterKeys, KeyPair


def make_key_pair() -> KeyPair:
    """Make one new key pair."""
    public, secret = zmq.curve_keypair()
    return KeyPair(public.decode(), secret.decode())


def make_cluster_keys() -> ClusterKeys:
    """Make the keys of a new cluster."""
    return ClusterKeys(make_key_pair(), make_key_pair(), make_key_pair())
