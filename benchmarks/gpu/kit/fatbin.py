"""Make a copy of a CUDA library with the code of one GPU architecture only.

Nothing moves: what a GPU of that architecture never reads becomes zeros, which compress to nothing.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

_MAGIC = 0xBA55ED50
"""A fatbin begins with it; then come version, size of its header, and size of its rest."""
_FATBIN = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQ")
"""Of each entry: kind (PTX or code), version, size of its header, of its payload."""
_ARCH_AT = 28
"""Where the header of an entry has the architecture, as 90 for sm_90."""
_LINKED, _RELOCATABLE = ".nv_fatbin", "__nv_relfatbin"
"""Sections with code that runs as it is, and with what only a device linker reads."""


class Section(NamedTuple):
    """A section of an ELF file."""

    name: str
    start: int
    size: int


def trim(library: bytes, arch: int, *, keep_relocatable: bool = False) -> bytes:
    """Return the library with what `arch` does not need set to zero, and as long as before.

    Raises ValueError when it has no code for that architecture.
    """
    trimmed, kept = bytearray(library), 0
    for section in list_sections(library):
        if section.name.startswith(".debug_"):
            _clear(trimmed, section.start, section.size)
        if section.name not in (_LINKED, _RELOCATABLE):
            continue
        is_used = section.name == _LINKED or keep_relocatable
        for found, start, size in list_payloads(library, section):
            if is_used and found == arch:
                kept += size
            else:
                _clear(trimmed, start, size)
    if not kept:
        raise ValueError(f"the library has no code for sm_{arch}")
    return bytes(trimmed)


def list_sections(library: bytes) -> Iterator[Section]:
    """Return the sections of a 64-bit little-endian ELF file."""
    if library[:6] != b"\x7fELF\x02\x01":
        raise ValueError("this is no library for 64-bit Linux")
    (table,) = struct.unpack_from("<Q", library, 0x28)
    each, count, of_names = struct.unpack_from("<HHH", library, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", library, table + n * each) for n in range(count)]
    names = headers[of_names][4]
    for name, _kind, _flags, _address, start, size in headers:
        end = library.index(b"\0", names + name)
        yield Section(library[names + name : end].decode(), start, size)


def list_payloads(library: bytes, section: Section) -> Iterator[tuple[int, int, int]]:
    """Return architecture, start and size of everything that the fatbins of a section hold."""
    place, end = section.start, section.start + section.size
    while place + _FATBIN.size <= end:
        magic, _version, header, rest = _FATBIN.unpack_from(library, place)
        if magic != _MAGIC:
            place += 8  # they begin at multiples of it
            continue
        place += header
        stop = place + rest
        while place < stop:
            _kind, _version, header, size = _ENTRY.unpack_from(library, place)
            (arch,) = struct.unpack_from("<I", library, place + _ARCH_AT)
            yield arch, place + header, size
            place += header + size


def _clear(data: bytearray, start: int, size: int) -> None:
    data[start : start + size] = bytes(size)
