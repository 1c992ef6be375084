import asyncio

import pytest

from jupyter_dist.server.mailbox import MOST_PAPERS, Mailbox


async def drain(mailbox, count):
    return [await asyncio.wait_for(mailbox.take(), 1) for _ in range(count)]


def run(coroutine):
    return asyncio.run(coroutine)


def test_of_what_shows_a_state_only_the_newest_is_kept():
    async def play():
        mailbox = Mailbox()
        for number in range(1000):
            mailbox.put(("topology", "x"), f"picture {number}")
            mailbox.put(("cell", "x"), f"cell {number}")
        return await drain(mailbox, 2), mailbox._papers

    assert run(play()) == (["picture 999", "cell 999"], {})


def test_replies_are_all_kept_up_to_a_bound_and_the_oldest_go():
    async def play():
        mailbox = Mailbox()
        mailbox.put(("topology", "x"), "picture")
        for number in range(MOST_PAPERS + 5):
            mailbox.put(("reply", "x", str(number)), f"reply {number}")
        return await drain(mailbox, MOST_PAPERS + 1)

    first, *replies = run(play())
    assert first == "picture"
    assert replies == [f"reply {number}" for number in range(5, MOST_PAPERS + 5)]


def test_how_a_cluster_was_is_forgotten_and_what_it_answered_is_not():
    async def play():
        mailbox = Mailbox()
        mailbox.put(("clusters",), "list")
        mailbox.put(("topology", "x"), "picture")
        mailbox.put(("tail", "x", "3"), "tail")
        mailbox.put(("topology", "y"), "other")
        mailbox.put(("reply", "x", "1"), "reply")
        mailbox.drop("x")
        return await drain(mailbox, 3)

    assert run(play()) == ["list", "other", "reply"]


def test_whoever_takes_waits_for_the_next():
    async def play():
        mailbox = Mailbox()
        taking = asyncio.ensure_future(mailbox.take())
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(taking), 0.01)
        mailbox.put(("gone", "x"), "gone")
        return await asyncio.wait_for(taking, 1)

    assert run(play()) == "gone"
