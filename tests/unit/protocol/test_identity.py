import os

from jupyter_dist.protocol.identity import client_of, is_passing, line_identity, new_client


def test_clients_have_names_of_their_own_that_tell_their_process():
    names = [new_client(), new_client(), new_client(is_passing=True)]
    assert len(set(names)) == 3
    assert all(f"-{os.getpid()}-" in name for name in names)


def test_who_is_only_passing_is_known_by_every_line():
    passing, staying = new_client(is_passing=True), new_client()
    assert all(is_passing(line_identity(passing, number)) for number in (1, 12))
    assert not any(is_passing(line_identity(staying, number)) for number in (1, 12))
    assert client_of(line_identity(passing, 3)) == passing.encode()
    assert client_of(b"someone") == b"someone", "a line without a number is a client on its own"
