import subprocess
import sys

import pytest

SCATTERED = """
import ctypes
from jupyter_dist.engine.heap_holes import fill_holes

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_size_t, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_size_t]


def allocate(count):
    return [libc.malloc(size) for size in (24, 100, 700) for _ in range(count)]


blocks = allocate(2000)
for block in blocks[::2]:
    libc.free(block)
{fill}
found = allocate(30)
print(max(found) - min(found))
"""


def spread_of(fill):
    ran = subprocess.run(
        [sys.executable, "-c", SCATTERED.format(fill=fill)], check=True, stdout=subprocess.PIPE
    )
    return int(ran.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="malloc of glibc")
def test_what_is_allocated_afterwards_lies_together():
    assert spread_of("fill_holes()") < 100_000 < spread_of("")
