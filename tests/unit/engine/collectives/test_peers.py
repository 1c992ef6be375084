from unittest.mock import Mock

import pytest

from jupyter_dist.engine.collectives.peers import Peers
from jupyter_dist.errors import CollectiveTimeout
from jupyter_dist.protocol.places import Place, key_of, write_place

NEAR, FAR = Place("10.0.0.1:4000", "a"), Place("10.0.0.2:4000", "b")


@pytest.fixture
def control():
    control = Mock()
    control.get.return_value = write_place(FAR)
    return control


def test_a_rank_that_is_known_is_not_asked_for(control):
    peers = Peers({1: NEAR}, control, 600.0)
    assert (peers[1], peers.host_of(1)) == (NEAR.address, "a")
    control.get.assert_not_called()


def test_another_one_is_asked_for_once(control):
    peers = Peers({1: NEAR}, control, 600.0)
    assert (peers[90], peers.host_of(90)) == (FAR.address, "b")
    (asked,) = control.get.call_args_list
    assert asked.args == (key_of(90), 600.0), "as long as a collective may take"


def test_one_that_could_not_be_found_is_asked_for_again(control):
    peers = Peers({}, control, 600.0)
    control.get.side_effect = [CollectiveTimeout("no word"), write_place(FAR)]
    with pytest.raises(CollectiveTimeout):
        peers[90]
    assert peers[90] == FAR.address
