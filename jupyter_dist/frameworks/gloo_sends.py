"""Sends that gloo has lost from sight, and how the threads that wait for them are let go.

A peer may die just after it has asked for data. If its connection is reset between gloo's reading
of that request and the writing of the answer, gloo closes the connection, but has taken the send
off its list already: who waits for it is told nothing, and has no connection left that could be
shut down. It would wait until gloo's own time-out, which is half an hour in JAX. Gloo has a
function that ends such a wait; its name is in the symbol table of the library that gloo is part
of, and the object is found by what the thread sleeps on.
"""

import contextlib
import ctypes
import mmap
import os
import platform
import struct
import threading
from collections.abc import Iterator
from functools import cache

JAX_LIBRARY = "libjax_common.so"
TORCH_LIBRARY = "libtorch_cpu.so"

_FUTEX = {"x86_64": "202", "aarch64": "98"}
"""Number of the system call in which threads sleep, as in /proc."""
_BUFFER = b"_ZTVN4gloo9transport3tcp13UnboundBufferE"
_END_WAIT = b"_ZN4gloo9transport3tcp13UnboundBuffer13abortWaitSendEv"
_BUFFER_BYTES = 512
"""What a thread sleeps on lies in the object, at most so far behind its beginning."""
_TABLE_HEAD_BYTES = 16
"""Objects point behind the head of their class's table of functions."""
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_TABLES = (2, 11)
_AGAIN_S = 1.0


def end_lost_sends(library: str) -> int:
    """End all waits for sends within this library of this process; give how many there were.

    Only for when its connections are shut down: nothing is sent any more then, so that nobody
    gets half of a message, and whatever is received after the send fails.
    """
    asleep = _list_sleeping()
    loaded = _find_loaded(library) if asleep else None
    if loaded is None:
        return 0
    buffer_class, function = loaded
    end_wait = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)
    count = 0
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        for address in asleep:
            buffer = _find_buffer(memory.fileno(), address, buffer_class)
            if buffer:
                end_wait(buffer)
                count += 1
    return count


@contextlib.contextmanager
def ending_lost_sends(library: str) -> Iterator[None]:
    """Do so again and again within the block, which may wait for threads that wait for a send."""
    is_over = threading.Event()

    def serve() -> None:
        while not is_over.wait(_AGAIN_S):
            end_lost_sends(library)

    thread = threading.Thread(target=serve, name="gloo-sends", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _list_sleeping() -> list[int]:
    """Return the addresses that threads of this process sleep on."""
    number = _FUTEX.get(platform.machine())
    found = []
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/syscall") as file:
            call, *arguments = file.read().split()
            if call == number:
                found.append(int(arguments[0], 16))
    return found


def _find_buffer(memory: int, address: int, buffer_class: int) -> int:
    """Return the object that this address belongs to; 0 when it is none of this class."""
    begin = (address & ~7) - _BUFFER_BYTES
    try:
        content = os.pread(memory, _BUFFER_BYTES + 8, begin)
    except (OSError, OverflowError):
        return 0
    at = content.rfind(struct.pack("<Q", buffer_class + _TABLE_HEAD_BYTES))
    return begin + at if at >= 0 and at % 8 == 0 else 0


def _find_loaded(library: str) -> tuple[int, int] | None:
    """Return where the class and the function are in this process."""
    with open("/proc/self/maps", errors="surrogateescape") as file:
        for line in file:
            span, _, offset, *_, path = line.split(maxsplit=5)
            if path.rstrip("\n").endswith(f"/{library}") and int(offset, 16) == 0:
                symbols = find_symbols(path.rstrip("\n"), (_BUFFER, _END_WAIT))
                base = int(span.partition("-")[0], 16)
                if symbols is not None:
                    return base + symbols[0], base + symbols[1]
    return None


@cache
def find_symbols(path: str, names: tuple[bytes, ...]) -> tuple[int, ...] | None:
    """Return the places of symbols in a 64-bit ELF file; None unless all of them are there."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as elf:
        (sections_at,) = struct.unpack_from("<Q", elf, 0x28)
        count = struct.unpack_from("<H", elf, 0x3C)[0]
        sections = [
            _SECTION.unpack_from(elf, sections_at + number * _SECTION.size)
            for number in range(count)
        ]
        for _, kind, _, _, offset, size, link, *_ in sections:
            if kind in _SYMBOL_TABLES:
                texts = sections[link][4], sections[link][5]
                found = [_find_symbol(elf, (offset, size), texts, name) for name in names]
                if all(found):
                    return tuple(found)
    return None


def _find_symbol(
    elf: mmap.mmap, table: tuple[int, int], texts: tuple[int, int], name: bytes
) -> int:
    """Return the value of a symbol; 0 when it is not there. Places are offsets and sizes."""
    text_at = elf.find(name + b"\0", texts[0], sum(texts))
    number = struct.pack("<I", text_at - texts[0]) if text_at >= 0 else b""
    at = elf.find(number, table[0], sum(table)) if number else -1
    while at >= 0 and (at - table[0]) % _SYMBOL.size:
        at = elf.find(number, at + 1, sum(table))
    return int(_SYMBOL.unpack_from(elf, at)[4]) if at >= 0 else 0
