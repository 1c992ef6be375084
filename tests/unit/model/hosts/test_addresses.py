import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.model.hosts.addresses import join_address, split_address


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("10.0.0.2:4711", ("10.0.0.2", 4711)),
        ("[fd00::2]:0", ("fd00::2", 0)),
        ("nodeA.example:65535", ("nodeA.example", 65535)),
    ],
)
def test_an_address_is_split_and_joined_again(address, parts):
    assert split_address(address) == parts
    assert join_address(*parts) == address


@pytest.mark.parametrize(
    "address", ["", "10.0.0.2", ":4711", "fd00::2:4711", "a:b", "a:-1", "a:65536", "a:٣"]
)
def test_what_is_no_address_is_refused_with_what_is(address):
    with pytest.raises(UsageError, match=r"host:port and \[IPv6\]:port"):
        split_address(address)
