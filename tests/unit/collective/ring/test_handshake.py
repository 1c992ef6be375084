import pytest

from jupyter_dist.collective.ring import handshake
from jupyter_dist.collective.ring.handshake import Membership

ACCEPTING = Membership(rank=1, size=4, generation=7, key=b"secret")
CONNECTING = Membership(rank=2, size=4, generation=7, key=b"secret")


def test_two_ranks_with_the_same_key_prove_themselves():
    hello = handshake.write_hello(CONNECTING, 1)
    assert len(hello) == handshake.HELLO_BYTES
    assert handshake.read_hello(ACCEPTING, hello) == 2
    challenge = handshake.write_challenge(ACCEPTING, hello)
    assert len(challenge) == handshake.CHALLENGE_BYTES
    proof = handshake.answer_challenge(CONNECTING, hello, challenge)
    assert proof is not None
    assert len(proof) == handshake.PROOF_BYTES
    assert handshake.is_proof(ACCEPTING, hello, challenge, proof)


def test_an_accepting_side_with_another_key_is_found_out():
    hello = handshake.write_hello(CONNECTING, 1)
    impostor = Membership(rank=1, size=4, generation=7, key=b"guess")
    challenge = handshake.write_challenge(impostor, hello)
    assert handshake.answer_challenge(CONNECTING, hello, challenge) is None


def test_the_challenge_sent_back_is_no_proof():
    hello = handshake.write_hello(CONNECTING, 1)
    challenge = handshake.write_challenge(ACCEPTING, hello)
    assert not handshake.is_proof(ACCEPTING, hello, challenge, challenge[32:])


def test_a_proof_of_another_handshake_is_no_proof():
    hello = handshake.write_hello(CONNECTING, 1)
    first = handshake.write_challenge(ACCEPTING, hello)
    second = handshake.write_challenge(ACCEPTING, hello)
    proof = handshake.answer_challenge(CONNECTING, hello, first)
    assert proof is not None
    assert not handshake.is_proof(ACCEPTING, hello, second, proof)


@pytest.mark.parametrize(
    ("member", "target"),
    [
        (Membership(2, 4, 6, b"secret"), 1),
        (CONNECTING, 3),
        (Membership(1, 4, 7, b"secret"), 1),
        (Membership(4, 5, 7, b"secret"), 1),
    ],
    ids=["stale generation", "another rank", "ourselves", "no such rank"],
)
def test_a_hello_that_is_not_meant_for_this_rank_is_refused(member, target):
    assert handshake.read_hello(ACCEPTING, handshake.write_hello(member, target)) is None


def test_garbage_is_no_hello():
    assert handshake.read_hello(ACCEPTING, b"x" * handshake.HELLO_BYTES) is None
