"""A transport for a rank that is alone, or whose peers all bring the same as it does."""

import numpy as np

from jupyter_dist.collective.broken import Breakage, Broken
from jupyter_dist.collective.group import Group
from jupyter_dist.collective.host import HostCommunicator


class EchoTransport:
    """Remembers what it is asked for; `failure`, if set, breaks each call half done."""

    kind = "echo"

    def __init__(self, group):
        self.size = group.size
        self.calls = []
        self.entered = []
        self.exchanged = []
        self.prepared = 0
        self.children = []
        self.failure = None
        self.aborted = []
        self.left = []
        self.is_closed = False

    def enter(self, timeout_s, site):
        self.entered.append((timeout_s, site))

    def _do(self, call, *pairs):
        self.calls.append(str(call))
        if self.failure is not None:
            for target, _source in pairs:
                target.reshape(-1)[: target.size // 2] = 99
            raise Broken(self.failure)
        for target, source in pairs:
            target[...] = source

    def run(self, call, *given):
        getattr(self, call.operation)(call, *given)

    def all_reduce(self, call, source, target, ufunc):
        factor = self.size if ufunc is np.add else 1
        self._do(call, (target, source * source.dtype.type(factor)))

    def broadcast(self, call, target, root):
        self._do(call, (target, target))

    def reduce(self, call, source, target, root, ufunc):
        self.all_reduce(call, source, target, ufunc)

    def all_gather(self, call, source, stack):
        self._do(call, (stack, source))

    def reduce_scatter(self, call, rows, target, ufunc):
        self.all_reduce(call, rows[0], target, ufunc)

    def all_to_all(self, call, rows, target):
        self._do(call, (target, rows))

    def gather(self, call, source, stack, root):
        self._do(call, *([] if stack is None else [(stack, source)]))

    def scatter(self, call, stack, target, root):
        self._do(call, *([] if stack is None else [(target, stack[root])]))

    def exchange(self, call, sent, received):
        self.exchanged.append((sent, received))
        self._do(call, *((message.array, np.zeros_like(message.array)) for message in received))

    def barrier(self, call):
        self._do(call)

    def prepare_split(self):
        self.prepared += 1
        return f"door {self.prepared}"

    def forget_split(self):
        self.prepared -= 1

    def split(self, group, told, number):
        child = EchoTransport(group)
        self.children.append((group, list(told), number, child))
        return child

    def abort(self, breakage):
        self.aborted.append(breakage)

    def leave(self, breakage):
        self.left.append(breakage)

    def close(self):
        self.is_closed = True


LOST = Breakage("failed", 1, "closed its connection")


def communicator(rank=0, size=2, **kept):
    """Give a communicator of host memory, and its transport."""
    group = Group(rank, size, 3, **kept)
    transport = EchoTransport(group)
    return HostCommunicator(group, transport), transport
