"""The desk of the server extension: pages, what they follow, and what they ask for.

Everything here runs on the event loop and waits for nothing; clusters are spoken to on threads,
which hand over what they hear.
"""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from jupyter_dist.protocol.plain_values import to_text
from jupyter_dist.server.cluster_follower import ClusterFollower, Heard, Picture
from jupyter_dist.server.listing import Listing, Rows
from jupyter_dist.server.mailbox import Mailbox, Slot
from jupyter_dist.server.on_thread import on_thread
from jupyter_dist.server.page_messages import Clusters, Gone, StartSeen, Tail, TopologySeen
from jupyter_dist.server.page_requests import FollowAsked, StartAsked, ViewAsked
from jupyter_dist.server.specs import SpecFolders, SpecRow
from jupyter_dist.server.starting import Starts
from jupyter_dist.server.summaries import ClusterRow
from jupyter_dist.views.topology.changes import tell_whole
from jupyter_dist.views.topology.view_commands import Reply, ViewCommands

CLOSE_TIMEOUT_S = 3.0
_OTHERWISE = -1
"""The number of a state that no change is meant for."""


class PageSession:
    """One open page."""

    def __init__(self) -> None:
        self.mailbox = Mailbox()
        self.followed: ClusterFollower | None = None
        self.cluster = ""
        """What it follows or, after its end, has followed."""
        self.rank: int | None = None
        """Whose last lines it wants to see."""
        self.number = 0
        """The state of the followed cluster that it knows once it has read its mailbox; 0: none."""

    def show(self, slot: Slot, picture: Picture, change: str, whole: Callable[[], str]) -> None:
        """Tell it what changed if it knows what that is meant for, and otherwise the whole."""
        knows_base = self.number == picture.base and not self.mailbox.holds(slot)
        self.mailbox.put(slot, change if knows_base else whole())
        self.number = picture.number


class FeedHub:
    """Serves all pages of this Jupyter Server; they share one connection to each cluster."""

    def __init__(self, loop: asyncio.AbstractEventLoop, root: Path, own_specs: Path) -> None:
        self._loop = loop
        self.folders = SpecFolders(root, own_specs)
        self._pages: set[PageSession] = set()
        self._followed: dict[str, ClusterFollower] = {}
        self._under_way: dict[str, str] = {}
        """The last word of each start that is not over."""
        self._listing = Listing(lambda rows: self._hand_over(self._spread_rows, rows))
        self._starts = Starts(
            self.folders, root, lambda said: self._hand_over(self._spread_start, said)
        )

    # --- questions and requests ---

    async def list_clusters(self) -> Rows:
        """Return the list as it is now."""
        return await asyncio.wrap_future(self._listing.ask())

    async def list_specs(self) -> list[SpecRow]:
        """Return the saved specifications."""
        return await asyncio.wrap_future(on_thread(self.folders.list_specs))

    async def start(self, asked: StartAsked) -> ClusterRow:
        """Start a cluster and wait until it is ready; raises UsageError and StartFailed."""
        return await asyncio.wrap_future(self._starts.start(asked))

    async def request(self, name: str, asked: ViewAsked) -> list[Reply]:
        """Have a cluster do something; gives all replies when the last has come.

        Raises NoCluster, and ClusterGone for one that cannot be reached.
        """
        followed = self._hold(name)
        try:
            commands = await asyncio.wrap_future(followed.commands())
            return await self._obey(commands, name, asked)
        finally:
            self._release(followed)

    async def _obey(self, commands: ViewCommands, name: str, asked: ViewAsked) -> list[Reply]:
        replies: list[Reply] = []
        is_over = asyncio.Event()

        def take(reply: Reply) -> None:
            replies.append(reply)
            text = to_text({**reply, "cluster": name})
            near = [page for page in self._pages if page.cluster == name]
            _put(near, ("reply", name, asked.id), text)
            if reply["is_final"]:
                is_over.set()

        request = {
            key: value for key, value in msgspec.to_builtins(asked).items() if value is not None
        }
        commands.take(request, lambda reply: self._hand_over(take, reply))
        await is_over.wait()
        return replies

    # --- pages ---

    def open(self) -> PageSession:
        """Take in a page; it is told the list at once."""
        page = PageSession()
        self._pages.add(page)
        for request_id, text in self._under_way.items():
            page.mailbox.put(("start", "", request_id), text)
        self._listing.attend()
        asked = self._listing.ask()
        asked.add_done_callback(lambda answer: self._hand_over(self._tell_list, page, answer))
        return page

    def leave(self, page: PageSession) -> None:
        """Forget a page that was closed."""
        self._pages.discard(page)
        self._listing.leave()
        self._unfollow(page)

    def follow(self, page: PageSession, asked: FollowAsked) -> None:
        """Show a page this cluster from now on, and what is known of it at once."""
        before = page.followed
        if before is not None and before.name != asked.cluster:
            self._unfollow(page)
            page.mailbox.drop(before.name)
        page.cluster, page.rank = asked.cluster or "", asked.rank
        if asked.cluster and page.followed is None:
            page.followed, page.number = self._hold(asked.cluster), 0
            for slot, text in page.followed.latest.items():
                if slot[0] != "tail":
                    page.mailbox.put(slot, text)
        followed = page.followed
        if followed is not None:
            if asked.whole or not page.number:
                _show_whole(page, followed)
            slot = _tail_slot(followed.name, page.rank)
            if slot in followed.latest:
                page.mailbox.put(slot, followed.latest[slot])
            self._show_tails(followed)

    def _unfollow(self, page: PageSession) -> None:
        if page.followed is not None:
            followed, page.followed = page.followed, None
            self._show_tails(followed)
            self._release(followed)

    def _show_tails(self, followed: ClusterFollower) -> None:
        ranks = frozenset(
            page.rank for page in self._pages if page.followed is followed and page.rank is not None
        )
        wanted = {_tail_slot(followed.name, rank) for rank in ranks}
        for slot in [each for each in followed.latest if each[0] == "tail"]:
            if slot not in wanted:
                del followed.latest[slot]  # nobody keeps it up to date any more
        followed.show_tails(ranks)

    def _hold(self, name: str) -> ClusterFollower:
        followed = self._followed.get(name)
        if followed is None:
            followed = self._followed[name] = ClusterFollower(
                name, lambda one, said, text: self._hand_over(self._spread, one, said, text)
            )
        followed.holders += 1
        return followed

    def _release(self, followed: ClusterFollower) -> None:
        followed.holders -= 1
        if followed.holders == 0:
            followed.leave()
            if self._followed.get(followed.name) is followed:
                del self._followed[followed.name]

    # --- what clusters say ---

    def _hand_over(self, take: Callable[..., None], *values: Any) -> None:
        """Have the event loop take something; called on any thread."""
        with suppress(RuntimeError):  # the loop has ended, and with it all pages
            self._loop.call_soon_threadsafe(take, *values)

    def _spread(self, followed: ClusterFollower, said: Heard, text: str) -> None:
        """Put what a cluster says into the mailboxes of those who follow it."""
        if isinstance(said, Gone):
            self._spread_end(followed, text)
            return
        if isinstance(said, Picture):
            self._spread_picture(followed, said, text)
            return
        slot: Slot = ("cell", followed.name)
        if isinstance(said, Tail):
            slot = _tail_slot(followed.name, said.rank)
        followed.latest[slot] = text
        rank = said.rank if isinstance(said, Tail) else None
        concerned = [page for page in self._pages_of(followed) if rank in (None, page.rank)]
        _put(concerned, slot, text)

    def _spread_picture(self, followed: ClusterFollower, picture: Picture, text: str) -> None:
        """Tell what changed those who know what it changes, and the whole all others."""
        followed.topology, followed.number = picture.topology, picture.number
        whole = cache(lambda: _whole_text(followed))
        for page in self._pages_of(followed):
            page.show(("topology", followed.name), picture, text, whole)

    def _spread_end(self, followed: ClusterFollower, text: str) -> None:
        if self._followed.get(followed.name) is followed:
            del self._followed[followed.name]  # one of this name may be started again
        for page in self._pages_of(followed):
            page.mailbox.put(("gone", followed.name), text)
            self._unfollow(page)

    def _spread_rows(self, rows: Rows) -> None:
        _put(self._pages, ("clusters",), to_text(Clusters(clusters=rows)))
        for row in rows:
            followed = self._followed.get(row.name)
            if row.state == "silent" and followed is not None and followed.topology is not None:
                note = f"{row.note}: this is how it was before"
                silent = msgspec.structs.replace(followed.topology, note=note)
                told = tell_whole(silent, _OTHERWISE)
                for page in self._pages_of(followed):
                    text = to_text(TopologySeen(cluster=row.name, told=told))
                    page.mailbox.put(("topology", row.name), text)
                    page.number = _OTHERWISE

    def _spread_start(self, said: StartSeen) -> None:
        text = to_text(said)
        self._under_way[said.id] = text
        if said.is_over:
            del self._under_way[said.id]
        _put(self._pages, ("start", "", said.id), text)

    def _tell_list(self, page: PageSession, answer: "Future[Rows]") -> None:
        if not answer.cancelled() and answer.exception() is None:
            page.mailbox.put(("clusters",), to_text(Clusters(clusters=answer.result())))

    def _pages_of(self, followed: ClusterFollower) -> list[PageSession]:
        return [page for page in self._pages if page.followed is followed]

    # --- the end ---

    async def close(self) -> None:
        """Leave all clusters; they go on.

        A start that is under way is not waited for: its coordinator gets it done, or cleans up.
        """
        followed = list(self._followed.values())
        for each in followed:
            each.leave()

        def wait() -> None:
            self._listing.close()
            for each in followed:
                each.join(1.0)

        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(on_thread(wait)), CLOSE_TIMEOUT_S)


def _put(pages: Iterable[PageSession], slot: Slot, text: str) -> None:
    for page in pages:
        page.mailbox.put(slot, text)


def _whole_text(followed: ClusterFollower) -> str:
    assert followed.topology is not None
    told = tell_whole(followed.topology, followed.number)
    return to_text(TopologySeen(cluster=followed.name, told=told))


def _show_whole(page: PageSession, followed: ClusterFollower) -> None:
    if followed.topology is not None:
        page.mailbox.put(("topology", followed.name), _whole_text(followed))
        page.number = followed.number


def _tail_slot(cluster: str, rank: int | None) -> Slot:
    return ("tail", cluster, str(rank))
