"""CuPy and cupyx.distributed in small: the same modules, names and order of calls, and no GPU."""

import sys
from pathlib import Path

FILES = {
    "cupy/__init__.py": "__version__ = '14.2.0'\nfrom cupy import cuda\n",
    "cupy/cuda/__init__.py": """
import threading
class Stream:
    def __init__(self, ptr=0):
        self.ptr = ptr
current = Stream()
def get_current_stream():
    return current
class runtime:
    driver_lock = threading.Lock()
    def setDevice(device):
        Device.current = device
    def eventQuery(event):
        with runtime.driver_lock:
            return 0 if Event.made[event].done else 600
class Device:
    current = 0
    def __init__(self, id=None):
        self.id = Device.current if id is None else id
    def use(self):
        Device.current = self.id
class Event:
    made = []
    def __init__(self, disable_timing=False):
        self.done, self.streams, self.ptr = True, [], len(Event.made)
        Event.made.append(self)
    def record(self, stream=None):
        self.streams.append(stream)
def is_available():
    return True
""",
    "cupy/cuda/nccl.py": """
import threading
available = True
class NcclError(RuntimeError): ...
def get_version():
    return 22903
def get_unique_id():
    return b'i' * 128
class NcclCommunicator:
    def __init__(self, size, identity, rank):
        self.made_of = (size, identity, rank)
        self.calls = []
        self.aborted = threading.Event()
    def allReduce(self, *args):
        self.calls.append(args)
    def abort(self):
        self.aborted.set()
""",
    "cupyx/__init__.py": "",
    "cupyx/distributed/__init__.py": """
from cupyx.distributed._init import init_process_group
from cupyx.distributed._nccl_comm import NCCLBackend
""",
    "cupyx/distributed/_store.py": """
class TCPStore:
    def __init__(self, world_size): raise AssertionError('a server would be started')
class TCPStoreProxy:
    def __init__(self, host, port): raise AssertionError('a port would be used')
""",
    "cupyx/distributed/_comm.py": """
from cupyx.distributed import _store
class _Backend:
    def __init__(self, n_devices, rank, host, port):
        self._n_devices, self.rank = n_devices, rank
        self._store_proxy = _store.TCPStoreProxy(host, port)
        if rank == 0:
            self._store = _store.TCPStore(n_devices)
    def stop(self):
        if self.rank == 0:
            self._store.stop()
""",
    "cupyx/distributed/_nccl_comm.py": """
from cupy.cuda import nccl
from cupyx.distributed._comm import _Backend
class NCCLBackend(_Backend):
    def __init__(self, n_devices, rank, host='127.0.0.1', port=13333, use_mpi=False):
        super().__init__(n_devices, rank, host, port)
        if rank == 0:
            self._store.run(host, port)
            self._store_proxy['nccl_id'] = nccl.get_unique_id()
            self._store_proxy.barrier()
        else:
            self._store_proxy.barrier()
        identity = self._store_proxy['nccl_id']
        self._comm = nccl.NcclCommunicator(n_devices, identity, rank)
    def _dispatch_arg_type(self, function, args):
        self._comm.allReduce(function, *args)
        if function == 'sparse':
            self.all_reduce(args[0], args[0])
    def all_reduce(self, in_array, out_array, op='sum', stream=None):
        self._dispatch_arg_type('all_reduce', (in_array, out_array, op, stream))
    def sparse(self, in_array, stream=None):
        self._dispatch_arg_type('sparse', (in_array, stream))
    def send(self, array, peer, stream=None):
        self._dispatch_arg_type('send', (array, peer, stream))
    def barrier(self):
        self._store_proxy.barrier()
""",
    "cupyx/distributed/_init.py": """
from cupyx.distributed._nccl_comm import NCCLBackend
def init_process_group(n_devices, rank, *, backend='nccl', host=None, port=None, use_mpi=False):
    return NCCLBackend(n_devices, rank, host, port, use_mpi)
""",
}


def write_package(folder: Path) -> None:
    """Write the files."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def loaded() -> list[str]:
    """Name the modules of CuPy that are loaded, real or not."""
    return [name for name in sys.modules if name.partition(".")[0] in {"cupy", "cupyx"}]
