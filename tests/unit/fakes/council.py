"""Ranks as threads that save and restore together."""

import threading
from concurrent.futures import Future

import numpy as np

from jupyter_dist.checkpoint.restore.restoring import RestoreOptions, restore
from jupyter_dist.checkpoint.save.contents import take
from jupyter_dist.checkpoint.save.saving import Save, SaveOptions
from jupyter_dist.checkpoint.storage.save_target import Opening

PATIENCE_S = 20.0


class FakeHall:
    """Where the councils of several ranks meet."""

    def __init__(self, world_size, hosts=None):
        self.world_size = world_size
        self.hosts = tuple(hosts or ["nodeA"] * world_size)
        self.news = threading.Condition()
        self.brought = {}
        self.left = set()
        """Ranks that have ended: nobody waits for them."""
        self.sent_bytes = 0
        """Over the data path, counted once."""
        self.told_bytes = 0
        """Over the coordinator, counted once for each receiver."""
        self.topics = []
        """Of every meeting that took place."""

    def meet(self, key, rank, value):
        """Bring something and get what all have brought, by rank."""
        with self.news:
            there = self.brought.setdefault(key, {})
            there[rank] = value
            self.news.notify_all()
            self.news.wait_for(
                lambda: len(there) == self.world_size or self.left - set(there), PATIENCE_S
            )
            if len(there) < self.world_size:
                raise TimeoutError(f"only {sorted(there)} came to {key}")
            return [there[rank] for rank in range(self.world_size)]

    def count(self, nbytes):
        """Count what goes over the coordinator."""
        with self.news:
            self.told_bytes += nbytes

    def leave(self, rank):
        """Come to no meeting any more."""
        with self.news:
            self.left.add(rank)
            self.news.notify_all()


class FakeProgress:
    """Counts."""

    def __init__(self, total_bytes):
        self.total_bytes = total_bytes
        self.done_bytes = 0
        self.is_closed = False

    def add(self, nbytes):
        self.done_bytes += nbytes

    def close(self):
        self.is_closed = True


class FakeCouncil:
    """One rank's way to the others, as checkpoint.council.Council says."""

    generation = 1
    cluster = "demo"

    def __init__(self, rank, hall):
        self.rank = rank
        self.world_size = hall.world_size
        self.hosts = hall.hosts
        self.bars = []
        self._hall = hall
        self._count = 0

    def gather(self, topic, payload, timeout_s):
        self._count += 1
        if self.rank == 0:
            self._hall.topics.append(topic)
        self._hall.count(len(payload) * (self.world_size - 1))
        return self._hall.meet((self._count, topic), self.rank, payload)

    def collect(self, topic, payload, timeout_s):
        self._count += 1
        if self.rank == 0:
            self._hall.topics.append(topic)
        else:
            self._hall.count(len(payload))
        found = self._hall.meet((self._count, topic), self.rank, payload)
        return found if self.rank == 0 else []

    def broadcast(self, array, root, shape, dtype):
        self._count += 1
        sent = None if self.rank != root else np.array(array, copy=True)
        key = (self._count, "broadcast", root, shape, dtype.str)
        found = self._hall.meet(key, self.rank, sent)[root]
        assert found.shape == shape
        assert found.dtype == dtype
        if self.rank == root:
            self._hall.sent_bytes += found.nbytes
        return found

    def progress(self, label, total_bytes):
        self.bars.append(FakeProgress(total_bytes))
        return self.bars[-1]


def on_ranks(world_size, call, hosts=None):
    """Let each rank call this with its council; give the hall, and what each gave or raised."""
    hall = FakeHall(world_size, hosts)

    def run(rank, future):
        try:
            future.set_result(call(FakeCouncil(rank, hall)))
        except Exception as error:  # noqa: BLE001  (the test looks at it)
            future.set_exception(error)
        finally:
            hall.leave(rank)

    futures = [Future() for _ in range(world_size)]
    threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in enumerate(futures)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE_S)
    return hall, [future.exception(0) or future.result(0) for future in futures]


def describe(checkpoint_id, step, staging):
    """What rank 0 decides for all."""
    return Opening(
        id=checkpoint_id,
        step=step,
        staging=staging,
        saved_at="2026-11-22T15:04:05Z",
        versions={},
        cells=(),
    )


def open_save(rank_group, directory, tree, *, cache=None, memory=None, **wish):
    """Begin to save a tree on one rank; give the save on its way."""
    options = SaveOptions(directory=str(directory), **wish)
    saving = Save(rank_group, options, 3 * PATIENCE_S, cache)
    saving.open(lambda: take(tree, memory), describe)
    return saving


def save_on_ranks(world_size, directory, tree_of, hosts=None, **wish):
    """Save what `tree_of` gives for each rank; give the hall, and what each got or raised."""

    def call(rank_group):
        saving = open_save(rank_group, directory, tree_of(rank_group.rank), **wish)
        return saving.complete(FakeProgress)

    return on_ranks(world_size, call, hosts)


def restore_on_ranks(world_size, directory, hosts=None, like_of=lambda _: None, **asked):
    """Restore on so many ranks; give the hall, and what each got or raised."""

    def call(rank_group):
        like = like_of(rank_group.rank)
        options = RestoreOptions(**{"timeout_s": 3 * PATIENCE_S, "like": like, **asked})
        return restore(rank_group, str(directory), options)

    return on_ranks(world_size, call, hosts)
