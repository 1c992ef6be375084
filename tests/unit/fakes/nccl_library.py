"""A libnccl for ranks that are threads of one process, behind nccl4py's names and CuPy's.

It is as strict as NCCL asks callers to be: who calls while the last call is still in progress,
from two threads at once, or after an abort, is remembered as misuse.
"""

# ruff: noqa: N802, N815  (names and arguments are NCCL's and CuPy's)
import ctypes
import itertools
import threading
from collections import defaultdict, deque
from functools import partial
from types import SimpleNamespace

import ml_dtypes
import numpy as np
from fakes.nccl_device import GARBAGE

SUCCESS, SYSTEM_ERROR, INVALID_ARGUMENT, REMOTE_ERROR, IN_PROGRESS = 0, 2, 4, 6, 7
TYPES = [
    np.dtype(kind)
    for kind in (
        *("i1", "u1", "i4", "u4", "i8", "u8", "f2", "f4", "f8"),
        *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2),
    )
]
COLLECTIVES = {
    "all_reduce": "allReduce",
    "reduce": "reduce",
    "broadcast": "broadcast",
    "all_gather": "allGather",
    "reduce_scatter": "reduceScatter",
}
"""CuPy's names for them, by those of nccl4py."""
UFUNCS = [np.add, np.multiply, np.maximum, np.minimum, np.add]
_HANG_S = 30.0


class FakeNcclError(Exception):
    def __init__(self, status):
        self.status = status
        super().__init__(f"NCCL error {status}")


class FakeNccl:
    """What all processes have in common: the network, so to say."""

    def __init__(self, polls=2):
        self.news = threading.Condition()
        self.polls = polls
        """So often a caller is told that its call is in progress."""
        self.arrived = defaultdict(set)
        self.met = defaultdict(dict)
        self.letters = defaultdict(deque)
        self.misuse = []
        self.aborted = []
        self.destroyed = []
        self.never_finalized = set()
        self.launched = []
        self.init_error = {}
        """Result code of forming, by rank."""
        self.id_error = SUCCESS
        self.never_ready = set()
        self.init_may_return = threading.Event()
        self.init_may_return.set()
        self.comms = {}
        """The last one of each rank."""
        self.hanging_aborts = threading.Event()
        self.hanging_aborts.set()
        self._ids = itertools.count(1)

    def binding(self, cupy):
        return Nccl4pyBinding(self, cupy)

    def older_binding(self, cupy):
        return CuPyBinding(self, cupy)

    def new_id(self):
        return next(self._ids).to_bytes(128, "little")

    def wait(self, condition, comm):
        """Wait until it holds; tell whether it does, and not because of an abort."""
        with self.news:
            self.news.wait_for(lambda: condition() or comm.is_aborted, _HANG_S)
            return condition()

    def tell(self):
        with self.news:
            self.news.notify_all()


class Comm:
    """One rank's ncclComm_t."""

    def __init__(self, nccl, unique_id, size, rank):
        self.nccl, self.id, self.size, self.rank = nccl, unique_id, size, rank
        self.is_aborted = False
        self.is_finalized = False
        self.error = SUCCESS
        self.polls = 0
        self.deferred = []
        self.count = 0
        self.turn = threading.Lock()
        with nccl.news:
            nccl.comms[rank] = self
            nccl.arrived[unique_id].add(rank)
            nccl.news.notify_all()

    @property
    def is_formed(self):
        is_whole = len(self.nccl.arrived[self.id]) == self.size
        return is_whole and self.rank not in self.nccl.never_ready


def read(pointer, count, dtype):
    return np.frombuffer(ctypes.string_at(pointer, count * dtype.itemsize), dtype)


def write(pointer, values):
    data = np.ascontiguousarray(values).tobytes()
    ctypes.memmove(pointer, data, len(data))


def spoil(pointer, nbytes):
    ctypes.memset(pointer, GARBAGE, nbytes)


def combine(arrays, op, dtype, size):
    total = arrays[0].astype(dtype)
    for array in arrays[1:]:
        total = UFUNCS[op](total, array).astype(dtype)
    return (total / dtype.type(size)).astype(dtype) if op == 4 else total


class _Binding:
    """What both ways to it have in common: launching."""

    def __init__(self, nccl, cupy):
        self._nccl, self._cupy = nccl, cupy
        self._here = threading.local()

    def _check(self, comm):
        if comm is None or comm.is_aborted:
            self._nccl.misuse.append("called after an abort")
            raise FakeNcclError(INVALID_ARGUMENT)
        if comm.deferred and not getattr(self._here, "depth", 0):
            self._nccl.misuse.append("called while in progress")
            raise FakeNcclError(INVALID_ARGUMENT)

    def _launch(self, comm, stream, work):
        if not comm.turn.acquire(blocking=False):
            self._nccl.misuse.append("two threads at once")
        try:
            self._check(comm)
            if comm.error:
                raise FakeNcclError(comm.error)
            if getattr(self._here, "depth", 0):
                self._here.calls.append((comm, stream, work))
            else:
                self._start([(comm, stream, work)])
        finally:
            comm.turn.release()

    def _start(self, calls):
        """Put calls on their streams: messages of a group together, the rest one by one."""
        comm, stream, _ = calls[0]
        messages = [work for _, _, work in calls if isinstance(work, Letters)]
        works = [work for _, _, work in calls if not isinstance(work, Letters)]
        if messages:
            works.insert(0, Letters.together(messages))
        target = self._find_stream(stream)
        for work in works:
            self._nccl.launched.append((comm.rank, type(work).__name__))
        comm.deferred += [lambda work=work: target.put(work) for work in works]
        comm.polls = self._nccl.polls
        self._settle(comm)

    def _find_stream(self, stream):
        return self._cupy.find_stream(stream)

    def _settle(self, comm):
        raise NotImplementedError

    def group_start(self):
        self._here.depth = getattr(self._here, "depth", 0) + 1
        self._here.calls = []

    def group_end(self):
        self._here.depth -= 1
        if self._here.calls:
            self._start(self._here.calls)
        self._here.calls = []

    def _meet(self, name, source, target, *told):
        """Launch a collective; what its ranks must agree on is told before comm and stream."""
        *meaning, comm, stream = told
        self._launch(comm, stream, Meeting(comm, name, source, target, tuple(meaning)))

    def _send(self, source, count, datatype, peer, comm, stream):
        nbytes = count * TYPES[datatype].itemsize
        self._launch(comm, stream, Letters(comm, [(source, nbytes, peer)], []))

    def _recv(self, target, count, datatype, peer, comm, stream):
        nbytes = count * TYPES[datatype].itemsize
        self._launch(comm, stream, Letters(comm, [], [(target, nbytes, peer)]))


class Meeting:
    """A collective on a stream: waits for all ranks, as a kernel does."""

    def __init__(self, comm, name, source, target, told):
        self.comm, self.name, self.told = comm, name, told
        self.source, self.target = source, target
        comm.count += 1
        self.key = (comm.id, comm.count)

    def __call__(self):
        comm, nccl = self.comm, self.comm.nccl
        dtype = TYPES[self.told[1]]
        rows = comm.size if self.name == "reduce_scatter" else 1
        mine = read(self.source, self.told[0] * rows, dtype)
        with nccl.news:
            there = nccl.met[self.key]
            there[comm.rank] = (self.name, self.told, mine)
            nccl.news.notify_all()

        def agree():
            return len(there) == comm.size and len({each[:2] for each in there.values()}) == 1

        if nccl.wait(agree, comm):
            self._finish([there[rank][2] for rank in range(comm.size)], dtype)
        elif self.target:
            spoil(self.target, self.told[0] * dtype.itemsize)

    def _finish(self, brought, dtype):
        comm, name, told = self.comm, self.name, self.told
        match name:
            case "reduce" if comm.rank != told[3]:
                pass
            case "reduce" | "all_reduce":
                write(self.target, combine(brought, told[2], dtype, comm.size))
            case "broadcast":
                write(self.target, brought[told[2]])
            case "all_gather":
                write(self.target, np.concatenate(brought))
            case "reduce_scatter":
                total = combine(brought, told[2], dtype, comm.size)
                write(self.target, total.reshape(comm.size, -1)[comm.rank])


class Letters:
    """Messages on a stream, all at once: ends when all have been sent and received."""

    def __init__(self, comm, sent, received):
        self.comm, self.sent, self.received = comm, sent, received

    @classmethod
    def together(cls, letters):
        sent = [end for each in letters for end in each.sent]
        received = [end for each in letters for end in each.received]
        return cls(letters[0].comm, sent, received)

    def __call__(self):
        comm, nccl = self.comm, self.comm.nccl
        sent = []
        with nccl.news:
            for source, nbytes, peer in self.sent:
                letter = SimpleNamespace(data=ctypes.string_at(source, nbytes), is_taken=False)
                nccl.letters[comm.id, comm.rank, peer].append(letter)
                sent.append(letter)
            nccl.news.notify_all()
        for target, nbytes, peer in self.received:
            box = nccl.letters[comm.id, peer, comm.rank]
            if not nccl.wait(lambda box=box: bool(box), comm):
                spoil(target, nbytes)
                continue
            letter = box.popleft()
            assert len(letter.data) == nbytes
            ctypes.memmove(target, letter.data, nbytes)
            letter.is_taken = True
            nccl.tell()
        nccl.wait(lambda: all(letter.is_taken for letter in sent), comm)


class Nccl4pyBinding(_Binding):
    """nccl.bindings.nccl, as far as it is used: communicators do not block."""

    NCCLError = FakeNcclError
    Config = SimpleNamespace

    class UniqueId:
        @staticmethod
        def from_buffer(data):
            assert len(data) == 128
            return bytes(data)

    def __init__(self, nccl, cupy):
        super().__init__(nccl, cupy)
        self.send, self.recv = self._send, self._recv
        vars(self).update((name, partial(self._meet, name)) for name in COLLECTIVES)

    def _find_stream(self, stream):
        """Launch from a thread of its own, as what does not block does."""
        found = []
        launching = threading.Thread(target=lambda: found.append(self._cupy.find_stream(stream)))
        launching.start()
        launching.join()
        return found[0]

    def _settle(self, comm):
        """Leave it in progress: `comm_get_async_error` goes on with it."""

    def get_unique_id(self):
        if self._nccl.id_error:
            raise FakeNcclError(self._nccl.id_error)
        return self._nccl.new_id()

    def comm_init_rank_config(self, size, unique_id, rank, config):
        assert config.blocking == 0
        assert config.comm_name.startswith("jupyter-dist ")
        assert self._nccl.init_may_return.wait(_HANG_S)
        if rank in self._nccl.init_error:
            raise FakeNcclError(self._nccl.init_error[rank])
        return Comm(self._nccl, unique_id, size, rank)

    def comm_get_async_error(self, comm):
        if comm is None or comm.is_aborted:
            self._nccl.misuse.append("asked after an abort")
            raise FakeNcclError(INVALID_ARGUMENT)
        if comm.error:
            return comm.error
        if not comm.is_formed:
            return IN_PROGRESS
        if comm.is_finalized and comm.rank in self._nccl.never_finalized:
            return IN_PROGRESS
        if comm.deferred or (comm.is_finalized and comm.polls > 0):
            comm.polls -= 1
            if comm.polls > 0:
                return IN_PROGRESS
            for start in comm.deferred:
                start()
            comm.deferred = []
        return SUCCESS

    def comm_abort(self, comm):
        abort(self._nccl, comm)

    def comm_finalize(self, comm):
        self._check(comm)
        comm.is_finalized, comm.polls = True, self._nccl.polls

    def comm_destroy(self, comm):
        if not comm.is_finalized or self.comm_get_async_error(comm) != SUCCESS:
            self._nccl.misuse.append("destroyed before it was finalized")
        destroy(self._nccl, comm)

    def get_error_string(self, status):
        return {6: "remote process exited or there was a network error"}.get(
            status, f"code {status}"
        )

    def get_last_error(self, comm):
        assert comm is not None
        return "the last words"


class CuPyBinding(_Binding):
    """cupy.cuda.nccl, as far as it is used: communicators block until all have come."""

    NcclError = FakeNcclError
    available = True
    groupStart, groupEnd = _Binding.group_start, _Binding.group_end

    def get_unique_id(self):
        return self._nccl.new_id()

    def _settle(self, comm):
        for start in comm.deferred:
            start()
        comm.deferred = []

    def NcclCommunicator(self, size, unique_id, rank):
        comm = Comm(self._nccl, unique_id, size, rank)
        self._nccl.wait(lambda: comm.is_formed, comm)
        return CuPyComm(self, comm)


class CuPyComm:
    """CuPy's NcclCommunicator."""

    def __init__(self, binding, comm):
        self._comm = comm
        self._nccl = comm.nccl
        names = {theirs: partial(binding._meet, ours) for ours, theirs in COLLECTIVES.items()}
        for name, function in {**names, "send": binding._send, "recv": binding._recv}.items():
            setattr(self, name, self._with_comm(function))

    def _with_comm(self, function):
        return lambda *told: function(*told[:-1], self._comm, told[-1])

    def check_async_error(self):
        if self._comm.error:
            raise FakeNcclError(self._comm.error)

    def abort(self):
        abort(self._nccl, self._comm)

    def destroy(self):
        destroy(self._nccl, self._comm)


def destroy(nccl, comm):
    """End what has nothing on a stream any more."""
    if comm.is_aborted:
        nccl.misuse.append("destroyed after its end")
    nccl.destroyed.append(comm.rank)
    comm.is_aborted = True


def abort(nccl, comm):
    """Set the stream's work free, which leaves garbage behind."""
    if comm.is_aborted:
        nccl.misuse.append("aborted twice")
    if not comm.turn.acquire(blocking=False):
        nccl.misuse.append("aborted while another thread was inside")
    nccl.aborted.append(comm.rank)
    assert nccl.hanging_aborts.wait(_HANG_S)
    comm.is_aborted = True
    nccl.tell()
