"""A shared library of CUDA as far as its sections and fatbins go."""

import struct

_HEADER = 0x40
_MAGIC = 0xBA55ED50


def build_library(fatbins, *, plain=None, more=()):
    """Build one of sections with [(architecture, payload)], and of plain ones.

    `more` is a second fatbin in the last of them. Gives the bytes, and (start, size) of each
    payload by its architecture, and of each plain section by its name.
    """
    body, places, sections = bytearray(_HEADER), {}, []
    for name, entries in fatbins.items():
        start = len(body)
        _add_fatbin(body, entries, places)
        body += bytes(8)
        if name == list(fatbins)[-1] and more:
            _add_fatbin(body, more, {})
        sections.append((name, start, len(body) - start))
    for name, data in (plain or {}).items():
        places[name] = (len(body), len(data))
        sections.append((name, len(body), len(data)))
        body += data + bytes(-len(data) % 8)
    names = b"\0" + b"".join(name.encode() + b"\0" for name, _, _ in sections) + b".shstrtab\0"
    sections.append((".shstrtab", len(body), len(names)))
    body += names + bytes(-len(names) % 8)
    struct.pack_into("<6s", body, 0, b"\x7fELF\x02\x01")
    struct.pack_into("<Q", body, 0x28, len(body))
    struct.pack_into("<HHH", body, 0x3A, 64, len(sections), len(sections) - 1)
    for name, start, size in sections:
        at = names.index(b"\0" + name.encode() + b"\0") + 1
        body += struct.pack("<IIQQQQIIQQ", at, 1, 0, 0, start, size, 0, 0, 8, 0)
    return bytes(body), places


def _add_fatbin(body, entries, places):
    inside = bytearray()
    start = len(body) + 16
    for arch, payload in entries:
        padded = payload + bytes(-len(payload) % 8)
        head = bytearray(64)
        struct.pack_into("<HHIQ", head, 0, 2, 0x101, len(head), len(padded))
        struct.pack_into("<I", head, 28, arch)
        places[arch] = (start + len(inside) + len(head), len(payload))
        inside += head + padded
    body += struct.pack("<IHHQ", _MAGIC, 1, 16, len(inside)) + inside
