"""What a page is told of a cluster it follows: changes while it reads, the whole otherwise."""

import asyncio

import pytest

from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.server.cluster_follower import Picture
from jupyter_dist.server.feed_hub import PageSession

SLOT = ("topology", "x")


def a_picture(number, base=None):
    return Picture(Topology(cluster="x"), number - 1 if base is None else base, number)


class Reader:
    """A page that reads when it is let."""

    def __init__(self):
        self.page = PageSession()

    def show(self, picture):
        number = picture.number
        self.page.show(SLOT, picture, f"change to {number}", lambda: f"whole {number}")

    def read(self):
        return asyncio.run(asyncio.wait_for(self.page.mailbox.take(), 1))


def test_a_page_that_reads_is_told_each_change():
    reader = Reader()
    told = []
    for picture in (a_picture(1, base=0), a_picture(2), a_picture(3)):
        reader.show(picture)
        told.append(reader.read())
    assert told == ["change to 1", "change to 2", "change to 3"]


def test_a_page_that_comes_later_is_told_the_whole_first():
    reader = Reader()
    reader.show(a_picture(7))
    assert reader.read() == "whole 7"
    reader.show(a_picture(8))
    assert reader.read() == "change to 8"


def test_a_page_that_has_not_read_a_change_is_told_the_whole_in_its_place():
    reader = Reader()
    reader.show(a_picture(1, base=0))
    reader.read()
    for number in (2, 3, 4):
        reader.show(a_picture(number))
    assert reader.read() == "whole 4"
    reader.show(a_picture(5))
    assert reader.read() == "change to 5"


@pytest.mark.parametrize("number", [0, -1])
def test_a_page_that_was_told_something_else_is_told_the_whole(number):
    reader = Reader()
    reader.show(a_picture(1, base=0))
    reader.read()
    reader.page.number = number
    reader.show(a_picture(2))
    assert reader.read() == "whole 2"
